// The tile kernel and its launch: any strides, any tree, leaves fma and gfx942. What is not asked of it for
// want of speed alone: fma leaves whose operands engine/cuda/fma/tiles.cuh can read.
#pragma once

#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/contraction.hpp"
#include "engine/hip/tile_arguments.hpp"

namespace samebits::engine::hip {

// Workgroups that a launch makes at most; each has a slot of pending nodes.
constexpr int tile_slots(int compute_units) { return 2 * compute_units; }

void launch_tiles(Leaf leaf, const TileArguments& args, const Leaves& leaves, cudaStream_t stream);

}  // namespace samebits::engine::hip
