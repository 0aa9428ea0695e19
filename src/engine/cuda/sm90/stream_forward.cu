// Gate, up and the activation of few tokens; and the down projection behind them in one launch.
#include "engine/cuda/sm90/stream_launch.cuh"

namespace samebits::engine::cuda {

using namespace stream;

namespace {

ActivateElement epilogue_of(const GateUp& stage, const StreamActivation& activation) {
  const auto data = [](const View& view) { return static_cast<std::uint16_t*>(view.data); };
  return {data(stage.gate_out),      data(stage.up_out),      data(stage.act),
          stage.gate_out.row_stride, stage.up_out.row_stride, stage.act.row_stride,
          activation.sigma,          activation.kind,         stage.keep};
}

}  // namespace

void prepare_stream_forward() {
  prepare_kernels<Activate, NoPhase>();
  prepare_kernels<Activate, stream::Down>();
}

void stream_gate_up(const StreamProblem& problem, const GateUp& stage, const StreamActivation& activation,
                    const StreamResources& resources) {
  launch_stream<Activate>(problem, epilogue_of(stage, activation), {}, {}, resources);
}

void stream_gate_up_down(const StreamProblem& gate_up, const GateUp& stage, const StreamProblem& down,
                         const Target& target, const StreamActivation& activation,
                         const StreamResources& resources) {
  launch_stream<Activate, stream::Down>(gate_up, epilogue_of(stage, activation), down, {target}, resources);
}

}  // namespace samebits::engine::cuda
