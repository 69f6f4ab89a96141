#include "include/ftbnn.h"

#include <exception>
#include <string>
#include <thread>

#include "engine/engine.h"
#include "engine/reader.h"

struct ftbnn_model {
  ftbnn::Engine engine;
};

namespace {

thread_local std::string last_error;

// Runs `body`; an exception becomes the thread's error text and `failed`.
template <typename Result, typename Body>
Result guarded(Result failed, const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    last_error = error.what();
  } catch (...) {
    last_error = "unknown error";
  }
  return failed;
}

template <typename Read>
ftbnn_model* load(const void* from, int32_t threads, const Read& read) {
  return guarded(static_cast<ftbnn_model*>(nullptr), [&] {
    if (from == nullptr) throw std::invalid_argument("a null pointer was given");
    if (threads < 0) throw std::invalid_argument("threads must be 0 or more");
    const int count = threads > 0 ? threads : static_cast<int>(std::thread::hardware_concurrency());
    return new ftbnn_model{{read(), count > 0 ? count : 1}};
  });
}

template <typename Pixel>
int run(const ftbnn_model* model, const Pixel* images, int32_t batch, float* outputs) {
  return guarded(1, [&] {
    if (model == nullptr || images == nullptr || outputs == nullptr)
      throw std::invalid_argument("a null pointer was given");
    if (batch < 1) throw std::invalid_argument("the batch is empty");
    model->engine.run(images, batch, outputs);
    return 0;
  });
}

}  // namespace

ftbnn_model* ftbnn_load(const char* path, int32_t threads) {
  return load(path, threads, [&] { return ftbnn::read_model(path); });
}

ftbnn_model* ftbnn_load_bytes(const void* bytes, size_t size, int32_t threads) {
  return load(bytes, threads, [&] { return ftbnn::parse(bytes, size); });
}

void ftbnn_free(ftbnn_model* model) { delete model; }

int ftbnn_info(const ftbnn_model* model, ftbnn_model_info* info) {
  return guarded(1, [&] {
    if (model == nullptr || info == nullptr) throw std::invalid_argument("a null pointer was given");
    const ftbnn::Model& network = model->engine.model();
    const ftbnn::Shape& in = network.input();
    *info = {network.name.c_str(),
             in.c,
             in.h,
             in.w,
             static_cast<int32_t>(network.output().elements()),
             static_cast<int32_t>(network.class_names.size()),
             model->engine.threads(),
             ftbnn::isa_name(model->engine.isa())};
    return 0;
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

const char* ftbnn_error(void) { return last_error.c_str(); }
