// The plain kernels: any strides, any tree, every leaf that this device has. They are the ones to read, and
// what serves when operands are too oddly placed for the fast ones.
#pragma once

#include "engine/cuda/contraction.hpp"

namespace samebits::engine::SAMEBITS_GPU {

#if defined(SAMEBITS_ROCM)
inline constexpr int kPlainTile = 128;  // rows and columns
#else
inline constexpr int kPlainTile = 64;
#endif

// Blocks of a launch; each has a slot of pending nodes.
int plain_slots(int multiprocessors);

void contract_plain(const Contraction& problem, const Pending& pending, cudaStream_t stream);

}  // namespace samebits::engine::SAMEBITS_GPU
