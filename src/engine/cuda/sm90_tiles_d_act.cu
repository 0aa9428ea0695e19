// dG and dU: the gradient of the activation is the epilogue of dA, which is never stored.
#include "engine/cuda/sm90_tiles.cuh"

namespace samebits::engine::cuda {

using enum TileLayout;

void prepare_d_act_tiles() { tiles::prepare_kernels<GradientEpilogue, 1, k_major, mn64>(); }

void tiles_d_act(const TileProblem& problem, const DAct& stage, Swiglu kind, const float* sigma,
                 const TileTuning& tuning, const TileResources& resources) {
  const GradientEpilogue epilogue{rows_of(stage.gate),
                                  rows_of(stage.up),
                                  rows_of(stage.d_gate),
                                  rows_of(stage.d_up),
                                  sigma,
                                  kind,
                                  has_aligned_rows(stage.gate) && has_aligned_rows(stage.up) &&
                                      has_aligned_rows(stage.d_gate) && has_aligned_rows(stage.d_up)};
  tiles::launch_tiles<GradientEpilogue, 1, k_major, mn64>(problem, epilogue, tuning, resources);
}

}  // namespace samebits::engine::cuda
