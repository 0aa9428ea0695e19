// The merges that are left when segments of the leaves have run side by side, and the two lanes of dX.
#pragma once

#include "engine/cuda/contraction.hpp"
#include "engine/cuda/fma/leaves.hpp"

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {

// Nodes as the stream kernels leave them: [lane][node][rows][cols], f32 or bf16.
struct SegmentNodes {
  const void* data = nullptr;
  bool bf16 = false;
  int rows = 0, cols = 0;
  int lanes = 1;
};

// Every node of the cover to the target; with two lanes, whose covers are their roots, the finished sum.
void finish_segments(const SegmentNodes& nodes, const SegmentedLeaves& leaves, Precision lanes,
                     const Target& target, cudaStream_t stream);

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
