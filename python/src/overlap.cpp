#include "overlap.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace samebits::python {
namespace {

// A matrix with positive strides, the smaller one last: bits of memory do not care which axis is which.
struct Memory {
  std::int64_t begin = 0, end = 0;  // bytes
  std::int64_t rows = 0, cols = 0, row_stride = 0, col_stride = 0, size = 0;
};

Memory memory_of(const ConstView& view) {
  Memory m{0,
           0,
           view.rows,
           view.cols,
           view.row_stride,
           view.col_stride,
           static_cast<std::int64_t>(size_of(view.dtype))};
  m.begin = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data));
  for (auto [count, stride] : {std::pair(m.rows, &m.row_stride), std::pair(m.cols, &m.col_stride)}) {
    if (*stride >= 0) continue;
    m.begin += (count - 1) * *stride * m.size;
    *stride = -*stride;
  }
  const bool column_major = m.rows > 1 && m.cols > 1 && m.row_stride < m.col_stride;
  const bool column = m.rows == 1 && m.cols > 1 && m.col_stride != 1;
  if (column_major || column) {
    std::swap(m.rows, m.cols);
    std::swap(m.row_stride, m.col_stride);
  }
  if (m.cols == 1) m.col_stride = 1;
  m.end = m.begin + ((m.rows - 1) * m.row_stride + (m.cols - 1) * m.col_stride + 1) * m.size;
  return m;
}

bool dense(const Memory& m) { return m.col_stride == 1 && (m.rows == 1 || m.row_stride == m.cols); }

}  // namespace

bool share_memory(const ConstView& one, const ConstView& other) {
  if (one.empty() || other.empty() || !(one.device == other.device)) return false;
  Memory a = memory_of(one), b = memory_of(other);
  if (a.end <= b.begin || b.end <= a.begin) return false;
  if (a.begin == b.begin || (dense(a) && dense(b))) return true;
  if (a.size != b.size || (b.begin - a.begin) % a.size != 0) return false;
  if (a.begin > b.begin) std::swap(a, b);
  const bool packed = a.col_stride == 1 && b.col_stride == 1;
  if (a.rows == 1) a.row_stride = b.row_stride;
  if (b.rows == 1) b.row_stride = a.row_stride;
  if (!packed || a.row_stride != b.row_stride || a.row_stride < std::max(a.cols, b.cols)) return false;
  // Columns of one wide matrix: b begins in column `column` of the row that a begins, or of a later one.
  const std::int64_t column = (b.begin - a.begin) / a.size % a.row_stride;
  return column < a.cols || column + b.cols > a.row_stride;
}

bool repeats_elements(const ConstView& view) {
  if (view.empty()) return false;
  const Memory m = memory_of(view);
  return (m.cols > 1 && m.col_stride == 0) || (m.rows > 1 && m.row_stride <= (m.cols - 1) * m.col_stride);
}

}  // namespace samebits::python
