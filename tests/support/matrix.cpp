#include "support/matrix.hpp"

#include <algorithm>

namespace samebits::test {
namespace {

constexpr std::size_t kGuard = 256;  // bytes before and after; keeps the alignment of an allocation
constexpr unsigned char kPoison = 0xFF;

std::size_t bytes_of(std::int64_t rows, std::int64_t stride, std::int64_t shift, DType dtype) {
  return 2 * kGuard + static_cast<std::size_t>(rows * stride + shift) * size_of(dtype);
}

}  // namespace

Matrix::Matrix(engine::Engine& engine, std::int64_t rows, std::int64_t cols, DType dtype, Placement placement)
    : engine_(engine),
      bytes_(bytes_of(rows, cols + placement.padding, placement.shift, dtype)),
      memory_(engine.allocate(bytes_)) {
  auto* const first = static_cast<unsigned char*>(memory_.get()) + kGuard +
                      static_cast<std::size_t>(placement.shift) * size_of(dtype);
  view_ = {first, dtype, rows, cols, cols + placement.padding, 1, engine.device()};
  poison();
}

View Matrix::whole() const {
  const auto elements = static_cast<std::int64_t>(bytes_ / 2);
  return {memory_.get(), DType::bf16, 1, elements, elements, 1, engine_.device()};
}

void Matrix::poison(Queue queue) {
  const std::vector<unsigned char> bytes(bytes_, kPoison);
  engine_.copy(whole(), host_view(static_cast<const void*>(bytes.data()), 1, whole().cols), queue);
}

void Matrix::write(const void* packed, Queue queue) {
  if (!view_.empty()) engine_.copy(view_, host_view(packed, view_.rows, view_.cols, view_.dtype), queue);
}

void Matrix::read_packed(void* out, Queue queue) const {
  if (!view_.empty()) engine_.copy(host_view(out, view_.rows, view_.cols, view_.dtype), view_, queue);
}

bool Matrix::guards_hold(Queue queue) const {
  std::vector<unsigned char> bytes(bytes_);
  engine_.copy(host_view(bytes.data(), 1, whole().cols), whole(), queue);
  const std::size_t row_bytes = static_cast<std::size_t>(view_.cols) * size_of(view_.dtype);
  const std::size_t stride = static_cast<std::size_t>(view_.row_stride) * size_of(view_.dtype);
  auto at = bytes.begin() + (static_cast<const unsigned char*>(view_.data) -
                             static_cast<const unsigned char*>(memory_.get()));
  for (std::int64_t row = 0; row < view_.rows; ++row) {
    std::fill_n(at + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * stride), row_bytes, kPoison);
  }
  return std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == kPoison; });
}

}  // namespace samebits::test
