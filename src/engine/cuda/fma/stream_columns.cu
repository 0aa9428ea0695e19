#include "engine/cuda/fma/stream_launch.cuh"

namespace samebits::engine::cuda::fma_leaf {

void prepare_stream_columns() { prepare_shares<kColumnShares, StreamWeights::columns>(); }

void stream_columns(const StreamProblem& problem, const Target& target, const StreamLaunch& how,
                    cudaStream_t stream) {
  launch_share<kColumnShares, StreamWeights::columns>(problem, target, {}, how, stream);
}

}  // namespace samebits::engine::cuda::fma_leaf
