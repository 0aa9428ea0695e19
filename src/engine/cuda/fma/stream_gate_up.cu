#include "engine/cuda/fma/stream_launch.cuh"

namespace samebits::engine::cuda::fma_leaf {

void prepare_stream_gate_up() { prepare_shares<kGateUpShares, StreamWeights::gate_up>(); }

void stream_gate_up(const StreamProblem& problem, const StreamActivation& activation, const StreamLaunch& how,
                    cudaStream_t stream) {
  launch_share<kGateUpShares, StreamWeights::gate_up>(problem, {}, activation, how, stream);
}

}  // namespace samebits::engine::cuda::fma_leaf
