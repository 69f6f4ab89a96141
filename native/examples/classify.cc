// Classifies raw 8-bit images, each on a thread of its own: classify_cc MODEL.ftbnn IMAGE.raw ... (height x width x
// channels bytes each). Prints the three likeliest classes of every image; --profile shows where the time goes.
#include <ftbnn.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Free {
  void operator()(ftbnn_model* model) const { ftbnn_free(model); }
  void operator()(ftbnn_context* context) const { ftbnn_context_free(context); }
};
using Model = std::unique_ptr<ftbnn_model, Free>;
using Context = std::unique_ptr<ftbnn_context, Free>;

void check(bool holds) {
  if (!holds) throw std::runtime_error(ftbnn_error());
}

std::string classify(const ftbnn_model* model, const ftbnn_model_info& info, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.size() != static_cast<std::size_t>(info.channels) * info.height * info.width) {
    throw std::runtime_error("it is not height x width x channels bytes");
  }
  const Context context(ftbnn_context_new(model));  // a worker that lives longer keeps its own
  check(context != nullptr);
  std::vector<float> scores(info.outputs);
  std::vector<ftbnn_guess> guesses(std::min(3, info.outputs));
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(bytes.data());
  check(ftbnn_context_run_u8(context.get(), pixels, 1, scores.data()) == FTBNN_OK);
  check(ftbnn_top(scores.data(), info.outputs, guesses.data(), static_cast<std::int32_t>(guesses.size())) == FTBNN_OK);
  std::string line;
  for (const ftbnn_guess& guess : guesses) {
    const char* name = ftbnn_class_name(model, guess.index);
    line +=
        std::to_string(guess.index) + " " + (name != nullptr ? name : "-") + " " + std::to_string(guess.share) + " ";
  }
  return line;
}

void show_profile(const ftbnn_model* model, const ftbnn_model_info& info) {
  const std::vector<std::uint8_t> grey(static_cast<std::size_t>(info.channels) * info.height * info.width, 128);
  std::vector<ftbnn_operator_time> rows(info.operators + 1);
  check(ftbnn_profile(model, grey.data(), 20, rows.data()) == FTBNN_OK);
  for (const ftbnn_operator_time& row : rows) std::printf("%9.3f us  %s %s\n", 1e6 * row.seconds, row.kind, row.path);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw std::runtime_error("usage: classify_cc MODEL.ftbnn IMAGE.raw ... | --profile");
    ftbnn_options options = FTBNN_OPTIONS;
    options.threads = 1;
    const Model model(ftbnn_open(argv[1], &options));
    check(model != nullptr);
    ftbnn_model_info info;
    check(ftbnn_info(model.get(), &info) == FTBNN_OK);
    if (std::string(argv[2]) == "--profile") {
      show_profile(model.get(), info);
      return 0;
    }
    std::vector<std::string> answers(argc - 2);
    std::vector<std::thread> threads;
    for (int k = 2; k < argc; ++k) {
      threads.emplace_back([&, k] {
        try {
          answers[k - 2] = classify(model.get(), info, argv[k]);
        } catch (const std::exception& error) {
          answers[k - 2] = std::string(argv[k]) + ": " + error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& answer : answers) std::puts(answer.c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
}
