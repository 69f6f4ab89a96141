#include "include/ftbnn.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "base/cores.h"
#include "engine/engine.h"
#include "engine/operators/operator.h"
#include "engine/reader.h"

struct ftbnn_model {
  ftbnn::Engine engine;
};

struct ftbnn_context {
  const ftbnn::Engine& engine;
  ftbnn::Workspace space;
};

namespace {

// A plain array: to remember an error must not itself fail.
thread_local char last_error[512];
thread_local int last_code = FTBNN_OK;

int remember(int code, const char* what) noexcept {
  last_code = code;
  std::strncpy(last_error, what, sizeof last_error - 1);
  return code;
}

// Runs `body`; an exception becomes the thread's error text and a code.
template <typename Body>
int guarded(const Body& body) noexcept {
  try {
    body();
    return FTBNN_OK;
  } catch (const ftbnn::FormatError& error) {
    return remember(FTBNN_FORMAT, error.what());
  } catch (const std::system_error& error) {
    return remember(FTBNN_FILE, error.what());
  } catch (const std::invalid_argument& error) {
    return remember(FTBNN_ARGUMENT, error.what());
  } catch (const std::bad_alloc&) {
    return remember(FTBNN_MEMORY, "there is not enough memory");
  } catch (const std::exception& error) {
    return remember(FTBNN_OTHER, error.what());
  } catch (...) {
    return remember(FTBNN_OTHER, "unknown error");
  }
}

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// The caller's options, those of an older header with the rest as it is by default.
ftbnn_options known(const ftbnn_options* given) {
  ftbnn_options options = FTBNN_OPTIONS;
  if (given != nullptr) {
    require(given->size >= sizeof(std::size_t), "options must say their size: start with FTBNN_OPTIONS");
    std::memcpy(&options, given, std::min(given->size, sizeof options));
  }
  require(options.threads >= 0, "threads must be 0 or more");
  return options;
}

// path: of the file, if it is one; what is wrong with it is said of that.
template <typename Read>
ftbnn_model* open(const void* from, const char* path, const ftbnn_options* given, const Read& read) {
  ftbnn_model* model = nullptr;
  guarded([&] {
    require(from != nullptr, "a null pointer was given");
    const ftbnn_options options = known(given);
    ftbnn::Limits limits;
    if (options.max_bytes != 0) limits.max_bytes = options.max_bytes;
    if (options.max_macs != 0) limits.max_macs = options.max_macs;
    const int threads = options.threads > 0 ? options.threads : ftbnn::usable_cores();
    const char* isa = options.isa != nullptr ? options.isa : "";
    try {
      model = new ftbnn_model{{read(limits), threads, limits, isa, options.any_order != 0}};
    } catch (const ftbnn::FormatError& error) {
      if (path == nullptr) throw;
      throw ftbnn::FormatError(std::string(path) + ": " + error.what());
    }
  });
  return model;
}

void require_batch(const void* with, const void* images, int32_t batch, const float* outputs) {
  require(with != nullptr && images != nullptr && outputs != nullptr, "a null pointer was given");
  require(batch >= 1, "the batch is empty");
}

template <typename Pixel>
int run(const ftbnn_model* model, const Pixel* images, int32_t batch, float* outputs) {
  return guarded([&] {
    require_batch(model, images, batch, outputs);
    model->engine.run(images, batch, outputs);
  });
}

template <typename Pixel>
int run(ftbnn_context* context, const Pixel* images, int32_t batch, float* outputs) {
  return guarded([&] {
    require_batch(context, images, batch, outputs);
    context->engine.run_alone(context->space, images, batch, outputs);
  });
}

// The first of equal ones comes first.
void find_best(const float* scores, int32_t count, ftbnn_guess* guesses, int32_t k) {
  const auto is_better = [&](int32_t a, int32_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  };
  for (int32_t n = 0; n < k; ++n) {
    int32_t best = -1;
    for (int32_t c = 0; c < count; ++c) {
      const bool is_left = n == 0 || is_better(guesses[n - 1].index, c);
      if (is_left && (best < 0 || is_better(c, best))) best = c;
    }
    guesses[n].index = best;
  }
}

ftbnn_options with_threads(int32_t threads) {
  ftbnn_options options = FTBNN_OPTIONS;
  options.threads = threads;
  return options;
}

}  // namespace

const char* ftbnn_version(void) { return FTBNN_VERSION; }

ftbnn_model* ftbnn_open(const char* path, const ftbnn_options* options) {
  return open(path, path, options, [&](const ftbnn::Limits& limits) { return ftbnn::read_model(path, limits); });
}

ftbnn_model* ftbnn_open_bytes(const void* bytes, size_t size, const ftbnn_options* options) {
  return open(bytes, nullptr, options, [&](const ftbnn::Limits& limits) { return ftbnn::parse(bytes, size, limits); });
}

ftbnn_model* ftbnn_load(const char* path, int32_t threads) {
  const ftbnn_options options = with_threads(threads);
  return ftbnn_open(path, &options);
}

ftbnn_model* ftbnn_load_bytes(const void* bytes, size_t size, int32_t threads) {
  const ftbnn_options options = with_threads(threads);
  return ftbnn_open_bytes(bytes, size, &options);
}

void ftbnn_free(ftbnn_model* model) { delete model; }

int ftbnn_info_sized(const ftbnn_model* model, ftbnn_model_info* info, size_t size) {
  return guarded([&] {
    require(model != nullptr && info != nullptr, "a null pointer was given");
    const ftbnn::Model& network = model->engine.model();
    const ftbnn::Shape& in = network.input();
    const ftbnn_model_info all = {network.name.c_str(),
                                  in.c,
                                  in.h,
                                  in.w,
                                  static_cast<int32_t>(network.output().elements()),
                                  static_cast<int32_t>(network.class_names.size()),
                                  model->engine.threads(),
                                  model->engine.isa().c_str(),
                                  network.resize,
                                  network.mean.data(),
                                  network.std.data(),
                                  static_cast<int32_t>(network.operators.size())};
    std::memcpy(info, &all, std::min(size, sizeof all));
  });
}

const char* ftbnn_class_name(const ftbnn_model* model, int32_t index) {
  if (model == nullptr || index < 0) return nullptr;
  const auto& names = model->engine.model().class_names;
  return static_cast<std::size_t>(index) < names.size() ? names[static_cast<std::size_t>(index)].c_str() : nullptr;
}

int ftbnn_run(const ftbnn_model* model, const float* images, int32_t batch, float* outputs) {
  return run(model, images, batch, outputs);
}

int ftbnn_run_u8(const ftbnn_model* model, const uint8_t* images, int32_t batch, float* outputs) {
  return run(model, images, batch, outputs);
}

ftbnn_context* ftbnn_context_new(const ftbnn_model* model) {
  ftbnn_context* context = nullptr;
  guarded([&] {
    require(model != nullptr, "a null pointer was given");
    context = new ftbnn_context{model->engine, ftbnn::Workspace(model->engine.plan())};
  });
  return context;
}

void ftbnn_context_free(ftbnn_context* context) { delete context; }

int ftbnn_context_run(ftbnn_context* context, const float* images, int32_t batch, float* outputs) {
  return run(context, images, batch, outputs);
}

int ftbnn_context_run_u8(ftbnn_context* context, const uint8_t* images, int32_t batch, float* outputs) {
  return run(context, images, batch, outputs);
}

int ftbnn_top(const float* scores, int32_t count, ftbnn_guess* guesses, int32_t k) {
  return guarded([&] {
    require(scores != nullptr && guesses != nullptr, "a null pointer was given");
    require(k >= 1 && k <= count, "k must be 1 to the number of scores");
    require(std::all_of(scores, scores + count, [](float score) { return std::isfinite(score); }),
            "a score is not finite");
    find_best(scores, count, guesses, k);
    const double largest = scores[guesses[0].index];
    double all = 0;
    for (int32_t c = 0; c < count; ++c) all += std::exp(scores[c] - largest);
    for (int32_t n = 0; n < k; ++n) {
      guesses[n].share = static_cast<float>(std::exp(scores[guesses[n].index] - largest) / all);
    }
  });
}

int ftbnn_profile_sized(const ftbnn_model* model, const uint8_t* image, int32_t rounds, ftbnn_operator_time* rows,
                        size_t size) {
  return guarded([&] {
    require(model != nullptr && image != nullptr && rows != nullptr, "a null pointer was given");
    require(rounds >= 1, "there must be 1 round or more");
    const std::vector<double> seconds = model->engine.profile(image, rounds);
    const std::vector<ftbnn::Operator>& operators = model->engine.model().operators;
    for (std::size_t k = 0; k < seconds.size(); ++k) {
      ftbnn_operator_time row = {"", "input", 0, seconds[k]};
      if (k > 0)
        row = {operators[k - 1].path.c_str(), operators[k - 1].kind->name, model->engine.plan().macs(k - 1),
               seconds[k]};
      std::memcpy(reinterpret_cast<char*>(rows) + k * size, &row, std::min(size, sizeof row));
    }
  });
}

const char* ftbnn_error(void) { return last_error; }

int ftbnn_error_code(void) { return last_code; }
