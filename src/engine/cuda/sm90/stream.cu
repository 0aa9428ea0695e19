// Stages on their own: Y and lanes of dX, whose operands come from other ranks or go to them.
#include <algorithm>

#include "engine/cuda/sm90/stream_launch.cuh"

namespace samebits::engine::cuda {

using namespace stream;

void prepare_stream_forward();
void prepare_stream_backward();

StreamDevice prepare_stream() {
  prepare_stream_forward();
  prepare_stream_backward();
  prepare_kernels<Down, NoPhase>();
  prepare_kernels<Hidden, NoPhase>();
  prepare_kernels<HiddenLane, NoPhase>();
  StreamDevice device;
  for (int i = 0; i < 3; ++i) {
    constexpr int kSharedBytes = 226 * 1024;  // one block a multiprocessor
    device.blocks[i] = resident_blocks(stream_kernel<Down, NoPhase, 32>, kThreads, kSharedBytes, 1 << i);
  }
  return device;
}

bool stream_serves(const StreamProblem& problem, int levels) {
  for (int i = 0; i < 2; ++i) {
    for (const Operand* operand : {&problem.weight[i], &problem.token[i]}) {
      if (operand->data != nullptr && !is_mappable(*operand, problem.k)) return false;
    }
    if (problem.token[i].data != nullptr && !is_k_major(problem.token[i])) return false;
  }
  return problem.token[0].outer <= kStreamTokens && problem.leaves->fits_short() &&
         problem.leaves->count() > 0 && problem.leaves->levels() + problem.lanes - 1 <= levels;
}

std::size_t stream_pending_bytes(int multiprocessors, int levels) {
  return static_cast<std::size_t>(multiprocessors) * static_cast<std::size_t>(levels) * kConsumers *
         kMostValues * sizeof(float);
}

void stream_store(const StreamProblem& problem, const Target& target, const StreamResources& resources) {
  const StoreElement epilogue{target};
  if (problem.lanes == 2) {
    launch_stream<Hidden>(problem, epilogue, {}, {}, resources);
  } else if (is_k_major(problem.weight[0])) {
    launch_stream<Down>(problem, epilogue, {}, {}, resources);
  } else {
    launch_stream<HiddenLane>(problem, epilogue, {}, {}, resources);
  }
}

}  // namespace samebits::engine::cuda
