// Weight gradients of few tokens, leaf sm90: one leaf, a short chain, and a result that is large. Bound by
// the write.
#pragma once

#include "engine/cuda/contraction.hpp"

namespace samebits::engine::cuda {

inline constexpr std::int64_t kOuterTokens = 128;  // most tokens

// Both operands by columns, one leaf, a bf16 result with packed rows; all aligned at 16 bytes.
bool outer_serves(const Contraction& problem);

// Once on every device, before a launch.
void prepare_outer();

void contract_outer(const Contraction& problem, int multiprocessors, cudaStream_t stream);

}  // namespace samebits::engine::cuda
