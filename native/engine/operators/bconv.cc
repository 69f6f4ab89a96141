// bconv: binary weights on the codes of its input.
#include "kernels/bconv/bconv.h"
#include "base/table.h"
#include "engine/operators/conv.h"
#include "engine/operators/pool.h"

namespace ftbnn {

namespace {

BConvShape bconv_shape(const Operator& op, const Model& model) { return {conv_shape(op, model), op.zero_one}; }

// Bits as the file has them, [out][kh][kw][in of a group] in one stream, a whole word of channels at a time.
class BitStream {
 public:
  BitStream(const std::uint8_t* bytes, std::uint64_t size) : bytes_(bytes), size_(static_cast<std::size_t>(size)) {}

  std::uint64_t take(int count) {
    const std::size_t byte = at_ / 8;
    const int shift = static_cast<int>(at_ % 8);
    std::uint64_t word = 0;
    if (byte + sizeof word <= size_) {
      std::memcpy(&word, bytes_ + byte, sizeof word);
    } else {
      std::memcpy(&word, bytes_ + byte, size_ - byte);
    }
    word >>= shift;
    if (shift + count > 64) word |= std::uint64_t{bytes_[byte + 8]} << (64 - shift);
    at_ += static_cast<std::size_t>(count);
    return count == 64 ? word : word & ((std::uint64_t{1} << count) - 1);
  }

 private:
  const std::uint8_t* bytes_;
  std::size_t size_, at_ = 0;
};

class BConvStep final : public FusedStep {
 public:
  BConvStep(const Operator& op, const Planning& planning)
      : BConvStep(op, planning, bconv_shape(op, planning.model), kernels_for(op, planning)) {}

  bool reads_real() const override { return false; }
  bool reads_codes() const override { return true; }

  // A pool that alone reads the numbers of the output is done too, a few rows at a time.
  bool absorb(Step& reader) override {
    auto* pool = dynamic_cast<PoolStep*>(&reader);
    if (pool == nullptr || has_curve() || !pool->covers_input() || !pool->plan_bands(1)) return false;
    pool_ = pool;
    return true;
  }

  bool declare(Forms& forms) override {
    FusedStep::declare(forms);
    if (pool_ != nullptr) {
      forms.read_real(pool_->op().output);
      forms.write(pool_->op().output);
    }
    const Border border{shape_.ph, shape_.pw, shape_.rows(), shape_.columns()};
    codes_ = forms.read_codes(op_.inputs[0], op_.threshold, border);
    if (op_.tail.shortcut >= 0) forms.may_replace(op_.output, op_.tail.shortcut);
    return true;
  }

  std::uint64_t macs() const override { return shape_.macs(); }

  Sizes sizes() const override {
    const Sizes numbers = FusedStep::sizes(), own = kernels_.sizes(shape_);
    return {numbers.weights + own.weights, own.arranged, kept_bytes() + own.scratch,
            weight_words(shape_) * sizeof(std::uint64_t)};
  }

  void prepare(const Forms& forms) override {
    FusedStep::prepare(forms);
    std::vector<std::uint64_t> words;
    words.reserve(weight_words(shape_));
    BitStream stream(op_.bits, op_.weight_bytes);
    for (int g = 0; g < shape_.groups; ++g) {
      const int inputs = shape_.ins().size(g);
      for (int k = 0; k < shape_.outs().size(g) * shape_.taps(); ++k) {
        for (int c = 0; c < inputs; c += 64) words.push_back(stream.take(std::min(64, inputs - c)));
      }
    }
    bconv_ = kernels_.make(shape_, layout(forms), words.data());
  }

  void run(Image& image) const override {
    image.clear_border(op_.output);
    const Pass pass{Image::new_pass(), {image.codes(codes_, 0, 0), image.forms().code(codes_).row()}};
    if (pool_ != nullptr) return run_with_pool(image, pass);
    const int together = bconv_->panels_at_once(), parts = (panels() + together - 1) / together;
    if (is_for_panels(image.threads(), parts)) {
      run_by_panels(image, pass, parts);
    } else {
      const auto make = [&](int part, int first, int last, int worker) {
        const void* arranged = arrange(image, pass, first, last, worker);
        const int panel = part * together;
        convolve(image, pass, arranged, panel, first, last, worker, epilogue(image, panel, first));
      };
      image.for_panels(parts, out().h, z(out().w) * z(out().c) * sizeof(float), make,
                       bconv_->arranges() ? ARRANGED_PIECES : Image::PIECES_PER_THREAD);
    }
    finish(image);
  }

 private:
  static constexpr int ARRANGED_PIECES = 2;  // of a thread: rows at their seams are arranged twice
  static constexpr int MOST_APART = 256;     // positions whose panels may go to threads

  struct Pass {
    std::uint64_t number;
    Codes codes;
  };

  BConvStep(const Operator& op, const Planning& planning, const BConvShape& shape, const BConvKernels& kernels)
      : FusedStep(op, planning, kernels.panels(shape)), shape_(shape), kernels_(kernels) {}

  static const BConvKernels& kernels_for(const Operator& op, const Planning& planning) {
    const BConvShape shape = bconv_shape(op, planning.model);
    return bconv_table().best(planning.usable, [&](const BConvKernels& k) { return k.suits(shape); }).kernels;
  }

  // At the start of the scratch memory, while kernels use the rest: rows for a pool, or codes.
  std::size_t kept_bytes() const {
    if (pool_ != nullptr) return pool_->band_bytes();
    const bool is_small = shape_.positions() <= MOST_APART;
    const std::size_t codes = shape_.positions() * z(copies()) * z(panels());
    return is_small ? round_up(codes * sizeof(std::uint32_t), CACHE_LINE) : 0;
  }
  void* scratch(const Image& image, int worker) const {
    return static_cast<char*>(image.scratch(worker)) + kept_bytes();
  }

  const void* arrange(const Image& image, const Pass& pass, int first, int last, int worker) const {
    if (!bconv_->arranges()) return nullptr;
    return image.arranged(pass.number, first, worker,
                          [&](void* to) { bconv_->arrange(first, last, pass.codes, to, scratch(image, worker)); });
  }

  // Whether threads rather take panels than rows: a few rows may leave most of a kernel's lanes empty.
  bool is_for_panels(int threads, int parts) const {
    if (threads == 1 || parts < threads || shape_.positions() > MOST_APART) return false;
    const int rows = bconv_->effort((out().h + threads - 1) / threads) * parts;
    return 9 * bconv_->effort(out().h) * ((parts + threads - 1) / threads) <= 8 * rows;
  }

  // All rows of some panels to each thread. Panels of a position share cache lines of its codes, so a thread's are
  // kept until all are made.
  void run_by_panels(Image& image, const Pass& pass, int parts) const {
    const int together = bconv_->panels_at_once(), threads = image.threads();
    image.parallel(threads, [&](int task, int worker) {
      const int first = parts * task / threads * together;
      const int last = std::min(parts * (task + 1) / threads * together, panels());
      const void* arranged = arrange(image, pass, 0, out().h, worker);
      const int count = last - first;
      auto* kept = static_cast<std::uint32_t*>(image.scratch(worker));
      const Epilogue all = epilogue(image, first, 0);
      for (int panel = first; panel < last; panel += together) {
        Epilogue end = epilogue(image, panel, 0);
        if (end.codes != nullptr) {
          end.codes = kept + (panel - first);
          end.codes_stride = z(copies() * count);
          end.codes_row = z(out().w) * end.codes_stride;
          end.copy_codes = z(count);
        }
        convolve(image, pass, arranged, panel, 0, out().h, worker, end);
      }
      for (int y = 0; all.codes != nullptr && y < out().h; ++y) {
        std::uint32_t* to = all.codes + z(y) * all.codes_row;
        for (int x = 0; x < out().w; ++x, to += all.codes_stride) {
          for (int copy = 0; copy < copies(); ++copy, kept += count) {
            std::copy_n(kept, count, to + z(copy) * all.copy_codes);
          }
        }
      }
    });
  }

  void convolve(Image& image, const Pass& pass, const void* arranged, int panel, int first, int last, int worker,
                const Epilogue& end) const {
    BConvCall call{};
    call.codes = pass.codes;
    call.arranged = arranged;
    call.images = 1;
    call.panel = panel;
    call.panels = std::min(bconv_->panels_at_once(), panels() - panel);
    call.first = first;
    call.last = last;
    call.scratch = scratch(image, worker);
    call.end = end;
    bconv_->run(call);
  }

  void run_with_pool(Image& image, const Pass& pass) const {
    const auto prepare = [&](int first, int last, int worker) { arrange(image, pass, first, last, worker); };
    const auto make_rows = [&](int first, int last, float* to, int worker, bool is_again) {
      const void* arranged = image.arranged(worker);
      for (int number = 0; number < panels(); number += bconv_->panels_at_once()) {
        Epilogue end = epilogue(image, number, first);
        end.out = to + panel(number).first;
        end.out_stride = z(out().c);
        end.out_row = z(out().w) * z(out().c);
        if (is_again) end.codes = nullptr;  // somebody else writes them
        convolve(image, pass, arranged, number, first, last, worker, end);
      }
    };
    const auto make = [&](int first, int own, int last, float* to, int worker) {
      if (first < own) make_rows(first, own, to, worker, true);
      if (own < last) make_rows(own, last, to + z(own - first) * z(out().w) * z(out().c), worker, false);
    };
    pool_->run_in_bands(image, std::ref(prepare), std::ref(make));
  }

  // Where each group's channels are among the bits of the input's codes.
  CodeLayout layout(const Forms& forms) const {
    const CodeForm& form = forms.code(codes_);
    const std::vector<Run>& runs = forms.source(op_.inputs[0]).runs;
    CodeLayout layout{form.words(), form.bits(), {}, true};
    for (int g = 0; g < shape_.groups; ++g) {
      std::vector<BitRun> bits;
      int first = shape_.ins().first(g), left = shape_.ins().size(g);
      for (std::size_t k = 0; k < runs.size(); ++k) {
        const Run& run = runs[k];
        for (; first < run.count && left > 0;) {
          BitRun found = bits_of(form, run.first + first, std::min(left, run.count - first));
          found.first += form.first_bit(k);
          if (!bits.empty() && bits.back().first + bits.back().count == found.first) {
            bits.back().count += found.count;
          } else {
            bits.push_back(found);
          }
          first += found.count;
          left -= found.count;
        }
        first -= run.count;
        if (first < 0) first = 0;
      }
      layout.groups.push_back(std::move(bits));
    }
    return layout;
  }

  // The bits of up to `count` channels that lie side by side from this one on.
  static BitRun bits_of(const CodeForm& form, int channel, int count) {
    const Groups& groups = form.channels;
    const int g = std::min(channel / (groups.channels / groups.groups), groups.groups - 1);
    const int inside = channel - groups.first(g);
    const int panels = (groups.size(0) + PANEL - 1) / PANEL;  // of every group before the last
    return {g * panels * PANEL + inside, std::min(count, groups.size(g) - inside)};
  }

  const BConvShape shape_;
  const BConvKernels& kernels_;
  int codes_ = -1;  // the form it reads
  const PoolStep* pool_ = nullptr;
  std::unique_ptr<BConv> bconv_;
};

void read(Fields& fields) {
  enum { ZERO_ONE = 1, HAS_THRESHOLD = 2 };
  Operator& op = fields.op();
  fields.window();
  fields.groups();
  const int flags = fields.flags("code", fields.is_version(2) ? 3 : 1);
  op.zero_one = (flags & ZERO_ONE) != 0;
  const std::uint64_t count = weight_count(op, fields.in(), fields.out());
  op.weight_bytes = (count + 7) / 8;
  op.bits = fields.blob<std::uint8_t>(op.weight_bytes, "weights");
  fields.check(count % 8 == 0 || op.bits[op.weight_bytes - 1] >> count % 8 == 0, "spare bits are not zero");
  if (flags & HAS_THRESHOLD) op.threshold = fields.floats(static_cast<std::uint64_t>(fields.in().c), "thresholds");
  fields.epilogue();
}

std::unique_ptr<Step> plan(const Operator& op, const Planning& planning) {
  return std::make_unique<BConvStep>(op, planning);
}

}  // namespace

extern const OperatorKind bconv_kind;
const OperatorKind bconv_kind = {2, "bconv", 1, false, 1, read, plan};

}  // namespace ftbnn
