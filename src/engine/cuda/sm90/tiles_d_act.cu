// dG and dU: the gradient of the activation is the epilogue of dA, which is never stored.
#include "engine/cuda/sm90/tiles_launch.cuh"

namespace samebits::engine::cuda {

using enum TileLayout;

namespace {

template <Swiglu kKind>
void launch_as(const TileProblem& problem, const DAct& stage, const float* sigma, const TileTuning& tuning,
               const TileResources& resources) {
  const GradientEpilogue<kKind> epilogue{rows_of(stage.gate), rows_of(stage.up), rows_of(stage.d_gate),
                                         rows_of(stage.d_up), sigma};
  const tiles::Staged staged{
      2, {by_rows(stage.d_gate), by_rows(stage.d_up)}, {by_rows(stage.gate), by_rows(stage.up)}};
  tiles::launch_tiles<kTileWidths, GradientEpilogue<kKind>, 1, k_major, mn64>(problem, epilogue, staged,
                                                                              tuning, resources);
}

}  // namespace

void prepare_d_act_tiles() {
  tiles::prepare_kernels<kTileWidths, GradientEpilogue<Swiglu::one>, 1, k_major, mn64>();
  tiles::prepare_kernels<kTileWidths, GradientEpilogue<Swiglu::two>, 1, k_major, mn64>();
}

void tiles_d_act(const TileProblem& problem, const DAct& stage, Swiglu kind, const float* sigma,
                 const TileTuning& tuning, const TileResources& resources) {
  if (kind == Swiglu::two) {
    launch_as<Swiglu::two>(problem, stage, sigma, tuning, resources);
  } else {
    launch_as<Swiglu::one>(problem, stage, sigma, tuning, resources);
  }
}

}  // namespace samebits::engine::cuda
