// What a contraction reads and writes, as kernels are told it: plain data, on the host and on devices.
#pragma once

#include <cstdint>

#include "engine/cuda/namespace.hpp"
#include "engine/engine.hpp"
#include "numerics/hd.hpp"
#include "samebits/view.hpp"

namespace samebits::engine::SAMEBITS_GPU {

// A bf16 matrix [outer, k]; either stride may be the unit one.
struct Operand {
  const std::uint16_t* data = nullptr;
  std::int64_t outer = 0;
  std::int64_t outer_stride = 0;
  std::int64_t k_stride = 1;
};

// Where nodes go: node n of element (r, c) at data[start_of_row(r) + c * col_stride + n * node_stride]. A
// finished tensor is its one node. Rows may lie in slices: those from first[s] on are shift[s] elements off.
struct Target {
  void* data = nullptr;
  bool f32 = false;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 1;
  std::int64_t node_stride = 0;
  int slices = 0;
  int first[kMostSlices] = {};
  std::int64_t shift[kMostSlices] = {};

  SAMEBITS_HD std::int64_t start_of_row(std::int64_t row) const {
    std::int64_t start = row * row_stride;
    if (slices > 1) {
      std::int64_t off = 0;
      for (int s = 1; s < slices; ++s) off = row >= first[s] ? shift[s] : off;
      start += off;
    }
    return start;
  }
};

// A matrix whose rows are the outer index, or whose columns are.
inline Operand by_rows(const ConstView& view) {
  return {static_cast<const std::uint16_t*>(view.data), view.rows, view.row_stride, view.col_stride};
}
inline Operand by_cols(const ConstView& view) {
  return {static_cast<const std::uint16_t*>(view.data), view.cols, view.col_stride, view.row_stride};
}
inline Target target_of_view(const View& view) {
  return {view.data, view.dtype == DType::f32, view.row_stride, view.col_stride, 0};
}

// f32 accumulators of a leaf that the contraction resumes, or leaves open (Leaves says which): element (r, c)
// at data[r * row_stride + c].
struct Carried {
  float* data = nullptr;
  std::int64_t row_stride = 0;
  bool resumes = false, stays_open = false;
};

// Pending nodes of the tiles in flight: f32, private to the thread that wrote them.
// A resident block has a slot of `levels` levels, a tile's values each.
struct Pending {
  float* data = nullptr;
  int slots = 0;
  int levels = 0;
};

}  // namespace samebits::engine::SAMEBITS_GPU
