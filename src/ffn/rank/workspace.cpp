#include "ffn/rank/workspace.hpp"

#include <fmt/format.h>

#include "samebits/error.hpp"

namespace samebits::ffn {

std::size_t checked_bytes(std::int64_t rows, std::int64_t cols, std::size_t size) {
  std::int64_t elements = 0, bytes = 0;
  if (__builtin_mul_overflow(rows, cols, &elements) ||
      __builtin_mul_overflow(elements, static_cast<std::int64_t>(size), &bytes)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a {} x {} tensor has more bytes than 63 bits count", rows, cols));
  }
  return static_cast<std::size_t>(bytes);
}

void* Workspace::take(std::size_t bytes) {
  memory_.push_back(engine_.allocate(bytes));
  bytes_ += bytes;
  return memory_.back().get();
}

View Workspace::matrix(std::int64_t rows, std::int64_t cols, DType dtype) {
  return {take(checked_bytes(rows, cols, size_of(dtype))), dtype, rows, cols, cols, 1, engine_.device()};
}

View packed(const View& buffer, std::int64_t rows, std::int64_t cols) {
  View view = buffer;
  view.rows = rows;
  view.cols = cols;
  view.row_stride = cols;
  return view;
}

}  // namespace samebits::ffn
