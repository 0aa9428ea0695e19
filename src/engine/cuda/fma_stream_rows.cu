#include "engine/cuda/fma_stream_launch.cuh"

namespace samebits::engine::cuda::fma_leaf {
namespace {

constexpr auto kRows = StreamWeights::rows;

}  // namespace

void prepare_stream_rows() {
  prepare_stream<1, 1, kRows>();
  prepare_stream<4, 1, kRows>();
  prepare_stream<4, 4, kRows>();
  prepare_stream<8, 4, kRows>();
  prepare_stream<16, 4, kRows>();
}

void stream_rows(const StreamProblem& problem, const Target& target, const StreamLaunch& how,
                 cudaStream_t stream) {
  const int tokens = how.tuning.tokens, rows = how.tuning.rows;
  if (tokens == 1) return launch_stream<1, 1, kRows>(problem, target, {}, how, stream);
  if (tokens == 4 && rows == 1) return launch_stream<4, 1, kRows>(problem, target, {}, how, stream);
  if (tokens == 4) return launch_stream<4, 4, kRows>(problem, target, {}, how, stream);
  if (tokens == 8) return launch_stream<8, 4, kRows>(problem, target, {}, how, stream);
  launch_stream<16, 4, kRows>(problem, target, {}, how, stream);
}

}  // namespace samebits::engine::cuda::fma_leaf
