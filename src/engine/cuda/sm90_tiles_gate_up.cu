// G, U and A: gate and up share the tile of x, the activation is the epilogue.
#include "engine/cuda/sm90_tiles.cuh"

namespace samebits::engine::cuda {

using enum TileLayout;

void prepare_gate_up_tiles() { tiles::prepare_kernels<ActivateEpilogue, 1, k_major, k_major>(); }

void tiles_gate_up(const TileProblem& problem, const GateUp& stage, Swiglu kind, const float* sigma,
                   const TileTuning& tuning, const TileResources& resources) {
  const ActivateEpilogue epilogue{
      rows_of(stage.gate_out),
      rows_of(stage.up_out),
      rows_of(stage.act),
      sigma,
      kind,
      stage.keep,
      has_aligned_rows(stage.gate_out) && has_aligned_rows(stage.up_out) && has_aligned_rows(stage.act)};
  tiles::launch_tiles<ActivateEpilogue, 1, k_major, k_major>(problem, epilogue, tuning, resources);
}

}  // namespace samebits::engine::cuda
