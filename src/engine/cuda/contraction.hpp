// result[r, c] = the tree over k of left[r, k] * right[c, k]: the problem, as every family of kernels takes
// it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/leaves.hpp"
#include "numerics/hd.hpp"
#include "samebits/contract.hpp"
#include "samebits/view.hpp"

namespace samebits::engine::cuda {

// A bf16 matrix [outer, k]; either stride may be the unit one.
struct Operand {
  const std::uint16_t* data = nullptr;
  std::int64_t outer = 0;
  std::int64_t outer_stride = 0;
  std::int64_t k_stride = 1;
};

// Where nodes go: node n of element (r, c) at data[r * row_stride + c * col_stride + n * node_stride]. A
// finished tensor is its one node.
struct Target {
  void* data = nullptr;
  bool f32 = false;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 1;
  std::int64_t node_stride = 0;
};

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

struct Contraction {
  Leaf leaf = Leaf::fma;
  bool bf16_nodes = false;
  Operand left, right;
  std::int64_t k = 0;  // of both operands
  const Leaves* leaves = nullptr;
  Target target;
  Carried carried{};
};

// A matrix whose rows are the outer index, or whose columns are.
Operand by_rows(const ConstView& view);
Operand by_cols(const ConstView& view);
Target target_of_view(const View& view);

}  // namespace samebits::engine::cuda
