// Descriptions of matrices for the copy engine. Made on the host for every call, passed by value.
#pragma once

#include <cuda.h>

#include "engine/cuda/contraction.hpp"

namespace samebits::engine::cuda {

// Whether the copy engine can read the operand: 16-byte rows, sizes that 32 bits count.
bool is_mappable(const Operand& operand, std::int64_t k);

inline bool is_k_major(const Operand& operand) { return operand.k_stride == 1; }

// Boxes of `inner` x `outer_rows` elements, inner along the unit stride (k, or the outer index), swizzled
// over inner * 2 bytes: 128 or 64.
CUtensorMap make_tensor_map(const Operand& operand, std::int64_t k, int inner, int rows);

}  // namespace samebits::engine::cuda
