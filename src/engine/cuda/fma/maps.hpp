// The operands of a stream launch as the copy engine sees them. Made on the host for every call.
#pragma once

#include <cuda.h>

#include "engine/cuda/contraction.hpp"

namespace samebits::engine::cuda::fma_leaf {

// Boxes of `inner` x `lines` elements, inner along the unit stride: k by rows, the outer index by columns.
// Both are at most 256. Lines of 64 elements are swizzled: 16 bytes at p of line r lie at p ^ (r & 7).
CUtensorMap map_of(const Operand& operand, std::int64_t k, int inner, int lines);

}  // namespace samebits::engine::cuda::fma_leaf
