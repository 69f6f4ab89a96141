// Where there are tiles: images one below the other in one plane of bytes, so that the weights of a panel become bytes
// once for all of them. Neighbours share the border between them.
#include <algorithm>

#include "training/binary_conv.h"

namespace ftbnn::training {

namespace {

// To a call, if the images are small: making bytes of a panel's weights costs about as much as multiplying them with
// 32 positions.
constexpr int POSITIONS = 256;
constexpr int TASKS_PER_THREAD = 4;
constexpr std::size_t VALUES = std::size_t{1} << 17;  // floats on their way to 16 bits: they stay in L2

std::size_t z(int value) { return static_cast<std::size_t>(value); }

// The plane of one image, its border included, and from one image to the next.
struct Stack {
  explicit Stack(const ConvShape& s)
      : rows((s.oh() - 1) * s.sh + s.kh),
        columns((s.ow() - 1) * s.sw + s.kw),
        stride_y(std::min(s.sh, rows)),  // past the image's end there is one output row
        stride_x(std::min(s.sw, columns)) {
    const int below = rows - s.ph - s.h;  // border at the bottom; less than 0 if windows leave rows out
    const int apart = rows - std::min(s.ph, std::max(0, below));
    out_pitch = (apart + stride_y - 1) / stride_y;
    pitch = out_pitch * stride_y;
  }
  int height(int images) const { return (images - 1) * pitch + rows; }

  int rows, columns, stride_y, stride_x;
  int pitch, out_pitch;  // input rows, output rows
};

CodeImage code_image(const ConvShape& s, const Stack& stack, int images, int channels, bool zero_one) {
  CodeImage image{};
  image.rows = stack.height(images);
  image.columns = stack.columns;
  image.words = (channels + 63) / 64;
  image.channels = channels;
  image.top = s.ph;
  image.left = s.pw;
  image.height = s.h;
  image.width = s.w;
  image.stride_y = stack.stride_y;
  image.stride_x = stack.stride_x;
  image.zero_one = zero_one;
  return image;
}

// Memory of a thread. It grows to what the largest convolution needs, and stays.
struct Scratch {
  AlignedArray<std::uint64_t> plane;
  AlignedArray<std::int8_t> bytes;
  AlignedArray<std::uint8_t> weights;
  AlignedArray<float> values;
};

template <typename T>
T* grown(AlignedArray<T>& array, std::size_t size) {
  if (array.size() < size) {
    array = {};  // not two at a time
    array = AlignedArray<T>(size);
  }
  return array.data();
}

}  // namespace

bool BinaryConv::by_tiles(const ConvShape& s, Isa isa) {
  const int channels = s.in - s.in / s.groups * (s.groups - 1);  // of the last group: no other has more
  const CodeImage image = code_image(s, Stack(s), 1, channels, false);
  const std::size_t weights = scratch_bytes(z(s.kh * s.kw) * z(image.words));
  return kernels_for(isa).bconv_rows != nullptr &&
         suits_tiles(z(s.oh()) * z(s.ow()), std::max(z(s.groups) * code_bytes(image), weights));
}

int BinaryConv::images_by_tiles(int threads) const {
  const Stack stack(shape_);
  const int few = std::max(1, shape_.n / (TASKS_PER_THREAD * threads));
  return std::clamp(POSITIONS / (stack.out_pitch * stack.columns), 1, few);
}

void BinaryConv::run_tiles(const std::uint64_t* codes, int images, std::int16_t* y, std::int64_t* sums,
                           std::int64_t* squares) const {
  static thread_local Scratch scratch;
  const ConvShape& s = shape_;
  const Stack stack(s);
  std::vector<CodeImage> planes;
  std::size_t bytes = 0;
  int words = 0;
  for (const Group& group : groups_) {
    planes.push_back(code_image(s, stack, images, group.in_size, zero_one_));
    bytes += code_bytes(planes.back());
    words = std::max(words, group.words);
  }
  std::uint64_t* bits = grown(scratch.plane, z(stack.height(images)) * z(stack.columns) * z(words));
  std::int8_t* to = grown(scratch.bytes, bytes);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    CodeImage& plane = planes[g];
    const std::size_t pitch = z(stack.pitch) * z(stack.columns) * z(plane.words);
    plane.codes = bits;
    plane.bytes = to;
    to += code_bytes(plane);
    for (int k = 0; k < images; ++k) {
      fill_plane(groups_[g], codes + z(k) * z(s.h) * z(s.w) * z((s.in + 63) / 64), bits + z(k) * pitch);
      CodeImage image = plane;
      image.top += k * stack.pitch;
      kernels_.expand_rows(image, k * stack.pitch, k < images - 1 ? (k + 1) * stack.pitch : plane.rows);
    }
  }

  const std::size_t line = z(s.ow()) * z(s.out);
  const int lines = (images - 1) * stack.out_pitch + s.oh();
  const int band = static_cast<int>(std::clamp<std::size_t>(VALUES / line, 1, z(lines)));
  BConvRows rows{};
  rows.kh = s.kh;
  rows.kw = s.kw;
  rows.width = s.ow();
  rows.scratch = grown(scratch.weights, scratch_bytes(z(s.kh * s.kw * words)));
  rows.end = as_they_are();
  rows.out_row = line;
  float* values = grown(scratch.values, z(band) * line);
  const int most = limit(s);
  for (rows.first = 0; rows.first < lines; rows.first += band) {
    rows.last = std::min(lines, rows.first + band);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      rows.image = planes[g];
      rows.weights = weights_.data() + group.weights_at;
      for (int first = 0; first < group.out_size; first += PANEL) {
        rows.channels = std::min(PANEL, group.out_size - first);
        rows.end.out = values + group.out_first + first;
        kernels_.bconv_rows(rows);
        rows.weights += z(s.kh * s.kw * group.words) * PANEL;
      }
    }
    for (int k = 0; k < images; ++k) {
      const int top = k * stack.out_pitch;
      const int first = std::max(rows.first, top), last = std::min(rows.last, top + s.oh());
      if (first >= last) continue;
      rows_.keep(values + z(first - rows.first) * line, z(last - first) * z(s.ow()), s.out, most,
                 y + (z(k) * z(s.oh()) + z(first - top)) * line, sums, squares);
    }
  }
}

}  // namespace ftbnn::training
