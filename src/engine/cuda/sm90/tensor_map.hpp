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

// The same matrix as pieces of 64 k (k-major) or of 32 columns, so that one copy brings several: boxes of
// `pieces` pieces of `rows` rows, piece behind piece. The sizes must be whole pieces.
CUtensorMap make_piece_map(const Operand& operand, std::int64_t k, int rows, int pieces);

}  // namespace samebits::engine::cuda
