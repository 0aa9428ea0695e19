// result[r, c] = the tree over k of left[r, k] * right[c, k]: the problem, as every family of kernels takes
// it.
#pragma once

#include <cstdint>

#include "engine/cuda/leaves.hpp"
#include "engine/cuda/operands.hpp"
#include "engine/cuda/runtime.hpp"
#include "samebits/contract.hpp"
#include "samebits/view.hpp"

namespace samebits::engine::SAMEBITS_GPU {

struct Contraction {
  Leaf leaf = Leaf::fma;
  bool bf16_nodes = false;
  Operand left, right;
  std::int64_t k = 0;  // of both operands
  const Leaves* leaves = nullptr;
  Target target;
  Carried carried{};
};

}  // namespace samebits::engine::SAMEBITS_GPU
