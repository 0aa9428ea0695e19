// A view is a matrix that somebody else owns: pointer, type, shape, strides, place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "samebits/memory.hpp"

namespace samebits {

enum class DType : std::uint8_t { bf16, f16, f32 };

constexpr std::size_t size_of(DType type) { return type == DType::f32 ? 4 : 2; }
constexpr const char* name_of(DType type) {
  return type == DType::f32 ? "f32" : type == DType::f16 ? "f16" : "bf16";
}

// Strides count elements. A slice keeps the strides of its parent, so a shard of a weight is a view into the
// whole.
template <class Pointer>
struct BasicView {
  Pointer data = nullptr;
  DType dtype = DType::bf16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 1;
  Device device{};

  bool empty() const { return rows == 0 || cols == 0; }
  bool rows_packed() const { return col_stride == 1; }
  bool contiguous() const { return col_stride == 1 && (row_stride == cols || rows <= 1); }
  std::int64_t elements() const { return rows * cols; }

  BasicView slice_rows(std::int64_t begin, std::int64_t end) const {
    BasicView part = *this;
    part.data = offset(begin * row_stride);
    part.rows = end - begin;
    return part;
  }
  BasicView slice_cols(std::int64_t begin, std::int64_t end) const {
    BasicView part = *this;
    part.data = offset(begin * col_stride);
    part.cols = end - begin;
    return part;
  }
  template <class Other>
  operator BasicView<Other>() const {  // View -> ConstView
    return {data, dtype, rows, cols, row_stride, col_stride, device};
  }

 private:
  Pointer offset(std::int64_t count) const {
    if (data == nullptr || count == 0) return data;
    using Byte = decltype(byte_of(Pointer{}));
    return static_cast<Byte>(data) + count * static_cast<std::int64_t>(size_of(dtype));
  }
  static unsigned char* byte_of(void*) { return nullptr; }
  static const unsigned char* byte_of(const void*) { return nullptr; }
};

using View = BasicView<void*>;
using ConstView = BasicView<const void*>;

// A row-major matrix in host memory.
inline View host_view(void* data, std::int64_t rows, std::int64_t cols, DType dtype = DType::bf16) {
  return {data, dtype, rows, cols, cols, 1, {}};
}
inline ConstView host_view(const void* data, std::int64_t rows, std::int64_t cols,
                           DType dtype = DType::bf16) {
  return {data, dtype, rows, cols, cols, 1, {}};
}

}  // namespace samebits
