// G, U and A: gate and up share the tile of x, the activation is the epilogue.
#include "engine/cuda/sm90/tiles_launch.cuh"

namespace samebits::engine::cuda {

using enum TileLayout;

namespace {

template <Swiglu kKind>
void launch_as(const TileProblem& problem, const GateUp& stage, const float* sigma, const TileTuning& tuning,
               const TileResources& resources) {
  const ActivateEpilogue<kKind> epilogue{rows_of(stage.act), rows_of(stage.gate_out), rows_of(stage.up_out),
                                         sigma, stage.keep};
  tiles::Staged staged{1, {by_rows(stage.act)}};
  if (stage.keep) staged = {3, {by_rows(stage.act), by_rows(stage.gate_out), by_rows(stage.up_out)}};
  tiles::launch_tiles<kGateUpTileWidths, ActivateEpilogue<kKind>, 1, k_major, k_major>(
      problem, epilogue, staged, tuning, resources);
}

}  // namespace

void prepare_gate_up_tiles() {
  tiles::prepare_kernels<kGateUpTileWidths, ActivateEpilogue<Swiglu::one>, 1, k_major, k_major>();
  tiles::prepare_kernels<kGateUpTileWidths, ActivateEpilogue<Swiglu::two>, 1, k_major, k_major>();
}

void tiles_gate_up(const TileProblem& problem, const GateUp& stage, Swiglu kind, const float* sigma,
                   const TileTuning& tuning, const TileResources& resources) {
  if (kind == Swiglu::two) {
    launch_as<Swiglu::two>(problem, stage, sigma, tuning, resources);
  } else {
    launch_as<Swiglu::one>(problem, stage, sigma, tuning, resources);
  }
}

}  // namespace samebits::engine::cuda
