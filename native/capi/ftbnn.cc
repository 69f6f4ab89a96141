#include "include/ftbnn.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/cores.h"
#include "engine/engine.h"
#include "engine/reader.h"

struct ftbnn_model {
  ftbnn::Engine engine;
};

namespace {

// A plain array: to remember an error must not itself fail.
thread_local char last_error[512];

int remember(int code, const char* what) noexcept {
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

template <typename Read>
ftbnn_model* open(const void* from, const ftbnn_options* given, const Read& read) {
  ftbnn_model* model = nullptr;
  guarded([&] {
    require(from != nullptr, "a null pointer was given");
    const ftbnn_options options = known(given);
    ftbnn::Limits limits;
    if (options.max_bytes != 0) limits.max_bytes = options.max_bytes;
    if (options.max_macs != 0) limits.max_macs = options.max_macs;
    const int threads = options.threads > 0 ? options.threads : ftbnn::usable_cores();
    const char* isa = options.isa != nullptr ? options.isa : "";
    model = new ftbnn_model{{read(limits), threads, limits, isa, options.any_order != 0}};
  });
  return model;
}

template <typename Pixel>
int run(const ftbnn_model* model, const Pixel* images, int32_t batch, float* outputs) {
  return guarded([&] {
    require(model != nullptr && images != nullptr && outputs != nullptr, "a null pointer was given");
    require(batch >= 1, "the batch is empty");
    model->engine.run(images, batch, outputs);
  });
}

ftbnn_options with_threads(int32_t threads) {
  ftbnn_options options = FTBNN_OPTIONS;
  options.threads = threads;
  return options;
}

}  // namespace

const char* ftbnn_version(void) { return FTBNN_VERSION; }

ftbnn_model* ftbnn_open(const char* path, const ftbnn_options* options) {
  return open(path, options, [&](const ftbnn::Limits& limits) { return ftbnn::read_model(path, limits); });
}

ftbnn_model* ftbnn_open_bytes(const void* bytes, size_t size, const ftbnn_options* options) {
  return open(bytes, options, [&](const ftbnn::Limits& limits) { return ftbnn::parse(bytes, size, limits); });
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
                                  network.std.data()};
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

const char* ftbnn_error(void) { return last_error; }
