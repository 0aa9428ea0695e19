// Tiles of weight gradients that go on from an earlier call, or into a later one.
#include "engine/cuda/sm90/tiles_launch.cuh"

namespace samebits::engine::cuda {

using enum TileLayout;

void prepare_carry_tiles() { tiles::prepare_kernels<kTileWidths, CarryEpilogue, 1, mn64, mn64>(); }

void tiles_carry(const TileProblem& problem, const Target& target, const Carried& carried,
                 const TileTuning& tuning, const TileResources& resources) {
  CarryEpilogue epilogue{{target, neighbours_at_once(target)}, carried};
  tiles::launch_tiles<kTileWidths, CarryEpilogue, 1, mn64, mn64>(problem, epilogue, {}, tuning, resources);
}

}  // namespace samebits::engine::cuda
