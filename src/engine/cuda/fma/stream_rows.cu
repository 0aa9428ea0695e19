#include "engine/cuda/fma/stream_launch.cuh"

namespace samebits::engine::cuda::fma_leaf {

void prepare_stream_rows() { prepare_shares<kRowShares, StreamWeights::rows>(); }

void stream_rows(const StreamProblem& problem, const Target& target, const StreamLaunch& how,
                 cudaStream_t stream) {
  launch_share<kRowShares, StreamWeights::rows>(problem, target, {}, how, stream);
}

}  // namespace samebits::engine::cuda::fma_leaf
