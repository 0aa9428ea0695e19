#include "engine/cuda/fma/finish.hpp"
#include "engine/cuda/hopper.cuh"
#include "engine/cuda/launch.hpp"
#include "engine/cuda/nodes.cuh"
#include "numerics/leaf.hpp"
#include "numerics/swiglu.hpp"

namespace samebits::engine::cuda::fma_leaf {
namespace {

constexpr int kThreads = 128;

struct FinishArguments {
  SegmentNodes nodes;
  Target target;
  Precision lanes;
  int count;  // of a lane
  LeafStep step[kMostSegmentNodes];
};

__device__ float node_at(const SegmentNodes& nodes, std::int64_t at) {
  return nodes.bf16 ? numerics::widen(static_cast<const std::uint16_t*>(nodes.data)[at])
                    : static_cast<const float*>(nodes.data)[at];
}

__global__ void __launch_bounds__(kThreads) finish_nodes(const __grid_constant__ FinishArguments args) {
  // A column a thread, so that an index of any node is one of shared memory.
  __shared__ float pending[kMostSegmentNodes][kThreads];
  let_next_kernel_begin();
  wait_for_kernels_before();
  const SegmentNodes& nodes = args.nodes;
  const std::int64_t plane = std::int64_t{nodes.rows} * nodes.cols;
  const std::int64_t element = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (element >= plane) return;
  const std::int64_t row = element / nodes.cols, col = element - row * nodes.cols;
  const std::int64_t to = row * args.target.row_stride + col * args.target.col_stride;
  const int thread = static_cast<int>(threadIdx.x);
  float gate_root = 0.0f;
  for (int lane = 0; lane < nodes.lanes; ++lane) {
    float value[kMostSegmentNodes];
#pragma unroll
    for (int n = 0; n < kMostSegmentNodes; ++n) {
      if (n < args.count) value[n] = node_at(nodes, (lane * args.count + n) * plane + element);
    }
    int height = 0, node = 0;
#pragma unroll
    for (int n = 0; n < kMostSegmentNodes; ++n) {
      if (n >= args.count) continue;
      const LeafStep step = args.step[n];
      float top = value[n];
      for (int m = step.merges(); m > 0; --m) top = as_node(nodes.bf16, pending[--height][thread] + top);
      if (!step.emits()) {
        pending[height++][thread] = top;
      } else if (nodes.lanes == 1) {
        store_node(args.target, to + node++ * args.target.node_stride, top);
      } else if (lane == 0) {
        gate_root = top;
      } else {
        static_cast<std::uint16_t*>(args.target.data)[to] = numerics::add_lanes(args.lanes, gate_root, top);
      }
    }
  }
}

}  // namespace

void finish_segments(const SegmentNodes& nodes, const SegmentedLeaves& leaves, Precision lanes,
                     const Target& target, cudaStream_t stream) {
  FinishArguments args{nodes, target, lanes, leaves.nodes, {}};
  for (int n = 0; n < leaves.nodes; ++n) args.step[n] = leaves.finish[n];
  const std::int64_t elements = std::int64_t{nodes.rows} * nodes.cols;
  const LaunchShape shape{
      .blocks = static_cast<int>((elements + kThreads - 1) / kThreads), .threads = kThreads, .early = true};
  launch(finish_nodes, shape, stream, "merging segments", args);
}

}  // namespace samebits::engine::cuda::fma_leaf
