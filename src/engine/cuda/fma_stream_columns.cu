#include "engine/cuda/fma_stream_launch.cuh"

namespace samebits::engine::cuda::fma_leaf {
namespace {

constexpr auto kColumns = StreamWeights::columns;

}  // namespace

void prepare_stream_columns() {
  prepare_stream<1, 2, kColumns>();
  prepare_stream<4, 2, kColumns>();
  prepare_stream<8, 4, kColumns>();
  prepare_stream<16, 4, kColumns>();
}

void stream_columns(const StreamProblem& problem, const Target& target, const StreamLaunch& how,
                    cudaStream_t stream) {
  const int tokens = how.tuning.tokens;
  if (tokens == 1) return launch_stream<1, 2, kColumns>(problem, target, {}, how, stream);
  if (tokens == 4) return launch_stream<4, 2, kColumns>(problem, target, {}, how, stream);
  if (tokens == 8) return launch_stream<8, 4, kColumns>(problem, target, {}, how, stream);
  launch_stream<16, 4, kColumns>(problem, target, {}, how, stream);
}

}  // namespace samebits::engine::cuda::fma_leaf
