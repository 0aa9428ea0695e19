#include "engine/cuda/fma_stream_launch.cuh"

namespace samebits::engine::cuda::fma_leaf {
namespace {

constexpr auto kGateUp = StreamWeights::gate_up;

}  // namespace

void prepare_stream_gate_up() {
  prepare_stream<1, 1, kGateUp>();
  prepare_stream<4, 1, kGateUp>();
  prepare_stream<4, 3, kGateUp>();
  prepare_stream<8, 3, kGateUp>();
  prepare_stream<16, 3, kGateUp>();
}

void stream_gate_up(const StreamProblem& problem, const StreamActivation& activation, const StreamLaunch& how,
                    cudaStream_t stream) {
  const int tokens = how.tuning.tokens, rows = how.tuning.rows;
  if (tokens == 1) return launch_stream<1, 1, kGateUp>(problem, {}, activation, how, stream);
  if (tokens == 4 && rows == 1) return launch_stream<4, 1, kGateUp>(problem, {}, activation, how, stream);
  if (tokens == 4) return launch_stream<4, 3, kGateUp>(problem, {}, activation, how, stream);
  if (tokens == 8) return launch_stream<8, 3, kGateUp>(problem, {}, activation, how, stream);
  launch_stream<16, 3, kGateUp>(problem, {}, activation, how, stream);
}

}  // namespace samebits::engine::cuda::fma_leaf
