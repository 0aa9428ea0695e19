// dG and dU of few tokens; and dX behind them in one launch.
#include "engine/cuda/sm90/stream_launch.cuh"

namespace samebits::engine::cuda {

using namespace stream;

namespace {

GradientElement epilogue_of(const DAct& stage, const StreamActivation& activation) {
  const auto read = [](const ConstView& view) { return static_cast<const std::uint16_t*>(view.data); };
  const auto write = [](const View& view) { return static_cast<std::uint16_t*>(view.data); };
  return {read(stage.gate),      read(stage.up),      write(stage.d_gate),     write(stage.d_up),
          stage.gate.row_stride, stage.up.row_stride, stage.d_gate.row_stride, stage.d_up.row_stride,
          activation.sigma,      activation.kind};
}

}  // namespace

void prepare_stream_backward() {
  prepare_kernels<Gradient, NoPhase>();
  prepare_kernels<Gradient, Hidden>();
}

void stream_d_act(const StreamProblem& problem, const DAct& stage, const StreamActivation& activation,
                  const StreamResources& resources) {
  launch_stream<Gradient>(problem, epilogue_of(stage, activation), {}, {}, resources);
}

void stream_d_act_hidden(const StreamProblem& d_act, const DAct& stage, const StreamProblem& d_hidden,
                         const Target& target, const StreamActivation& activation,
                         const StreamResources& resources) {
  launch_stream<Gradient, Hidden>(d_act, epilogue_of(stage, activation), d_hidden, {target}, resources);
}

}  // namespace samebits::engine::cuda
