#include <algorithm>

#include "engine/cuda/finish.hpp"
#include "numerics/bf16.hpp"
#include "numerics/leaf.hpp"
#include "numerics/swiglu.hpp"
#include "samebits/error.hpp"
#if defined(SAMEBITS_ROCM)
#include "engine/hip/launch.hpp"
#else
#include "engine/cuda/hopper.cuh"
#include "engine/cuda/launch.hpp"
#endif

namespace samebits::engine::SAMEBITS_GPU {
namespace {

using numerics::Bf16;

constexpr int kThreads = 256;
constexpr int kMostRowBlocks = 1024;
constexpr int kMostPending = 24;  // of a thread's tree
constexpr int kFewNodes = 8;      // what a layout's tensor ranks mostly have together
constexpr int kNeighbours = 4;    // columns of a thread, where rows are packed and aligned
constexpr int kShallow = 12;      // pending nodes of that many columns that shared memory has without asking

// The nodes of a lane. Many of them are many kilobytes of parameters, which a launch of microseconds feels.
template <int kMost>
struct FinishList {
  int count = 0;
  FinishNode node[kMost];
};

struct FinishOutput {
  void* data;
  std::int64_t row_stride, col_stride, rows, cols;
  bool f32;
};

template <int kMost>
struct FinishTask {
  FinishList<kMost> gate, up;
  Precision node, lanes;
  bool f32_nodes;
  FinishOutput out;
};

// Of one thread: neighbouring columns of a row.
template <int kWidth>
struct Values {
  float of[kWidth];
};
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Packed {
  T of[kCount];
};

template <int kWidth>
__device__ Values<kWidth> load_node(const FinishNode& node, Precision precision, bool f32, std::int64_t row,
                                    std::int64_t col) {
  const std::int64_t at = row * node.row_stride + col;
  Values<kWidth> values;
  if (node.accumulators || f32) {
    const auto from =
        *reinterpret_cast<const Packed<float, kWidth>*>(static_cast<const float*>(node.data) + at);
    for (int i = 0; i < kWidth; ++i)
      values.of[i] = node.accumulators ? numerics::node(precision, from.of[i]) : from.of[i];
  } else {
    const auto from =
        *reinterpret_cast<const Packed<Bf16, kWidth>*>(static_cast<const Bf16*>(node.data) + at);
    for (int i = 0; i < kWidth; ++i) values.of[i] = numerics::widen(from.of[i]);
  }
  return values;
}

// `pending` is the thread's: a level every kThreads.
template <int kWidth, int kMost>
__device__ Values<kWidth> root_of(const FinishTask<kMost>& task, const FinishList<kMost>& list,
                                  std::int64_t row, std::int64_t col, Values<kWidth>* pending) {
  int height = 0;
  Values<kWidth> top{};
  for (int i = 0; i < list.count; ++i) {
    if (i > 0) pending[height++ * kThreads] = top;
    top = load_node<kWidth>(list.node[i], task.node, task.f32_nodes, row, col);
    for (int m = 0; m < list.node[i].merges; ++m) {
      const Values<kWidth> left = pending[--height * kThreads];
      for (int v = 0; v < kWidth; ++v) top.of[v] = numerics::node(task.node, left.of[v] + top.of[v]);
    }
  }
  return top;
}

// Threads along the columns, blocks over columns and rows.
template <int kWidth, bool kLanes, int kMost>
__global__ void __launch_bounds__(kThreads) finish_kernel(const __grid_constant__ FinishTask<kMost> task) {
  extern __shared__ float pending_nodes[];
  auto* const pending = reinterpret_cast<Values<kWidth>*>(pending_nodes) + threadIdx.x;
  let_next_kernel_begin();
  wait_for_kernels_before();
  const FinishOutput& out = task.out;
  const std::int64_t col = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kWidth;
  if (col >= out.cols) return;
  for (std::int64_t row = blockIdx.y; row < out.rows; row += gridDim.y) {
    const std::int64_t at = row * out.row_stride + col * out.col_stride;
    const Values<kWidth> root = root_of<kWidth>(task, task.gate, row, col, pending);
    if (out.f32) {
      Packed<float, kWidth> to;
      for (int i = 0; i < kWidth; ++i) to.of[i] = numerics::canonical_f32(root.of[i]);
      *reinterpret_cast<Packed<float, kWidth>*>(static_cast<float*>(out.data) + at) = to;
      continue;
    }
    Packed<Bf16, kWidth> to;
    if constexpr (kLanes) {
      const Values<kWidth> up = root_of<kWidth>(task, task.up, row, col, pending);
      for (int i = 0; i < kWidth; ++i) to.of[i] = numerics::add_lanes(task.lanes, root.of[i], up.of[i]);
    } else {
      for (int i = 0; i < kWidth; ++i) to.of[i] = numerics::round_bf16(root.of[i]);
    }
    *reinterpret_cast<Packed<Bf16, kWidth>*>(static_cast<Bf16*>(out.data) + at) = to;
  }
}

// How many nodes of a lane wait at once.
int most_pending(std::span<const FinishNode> nodes) {
  int height = 0, highest = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    highest = std::max(highest, height);
    height += 1 - nodes[i].merges;
  }
  return highest;
}

bool is_aligned(const void* data, std::int64_t row_stride, std::size_t element) {
  return reinterpret_cast<std::uintptr_t>(data) % (element * kNeighbours) == 0 &&
         row_stride % kNeighbours == 0;
}

bool are_aligned(std::span<const FinishNode> nodes, bool f32) {
  return std::all_of(nodes.begin(), nodes.end(), [&](const FinishNode& node) {
    return is_aligned(node.data, node.row_stride, f32 || node.accumulators ? sizeof(float) : sizeof(Bf16));
  });
}

template <int kMost>
FinishList<kMost> list_of(std::span<const FinishNode> nodes) {
  FinishList<kMost> list;
  list.count = static_cast<int>(nodes.size());
  std::copy(nodes.begin(), nodes.end(), list.node);
  return list;
}

template <int kMost>
void launch_finish(const Contract& contract, const Finish& stage, bool f32_nodes, int pending,
                   cudaStream_t stream) {
  const View& out = stage.out;
  const FinishTask<kMost> task{
      list_of<kMost>(stage.nodes),
      list_of<kMost>(stage.up),
      contract.node,
      contract.lanes,
      f32_nodes,
      {out.data, out.row_stride, out.col_stride, out.rows, out.cols, out.dtype == DType::f32}};
  const bool wide = pending <= kShallow && out.col_stride == 1 && out.cols % kNeighbours == 0 &&
                    is_aligned(out.data, out.row_stride, size_of(out.dtype)) &&
                    are_aligned(stage.nodes, f32_nodes) && are_aligned(stage.up, f32_nodes);
  const int width = wide ? kNeighbours : 1;
  const std::int64_t across = (out.cols / width + kThreads - 1) / kThreads;
  const LaunchShape shape{.blocks = static_cast<int>(across),
                          .threads = kThreads,
                          .shared_bytes = pending * kThreads * width * static_cast<int>(sizeof(float)),
                          .early = true,
                          .rows = static_cast<int>(std::min<std::int64_t>(out.rows, kMostRowBlocks))};
  const auto run = [&](auto kernel) { launch(kernel, shape, stream, "finish", task); };
  if (stage.up.empty()) {
    run(wide ? finish_kernel<kNeighbours, false, kMost> : finish_kernel<1, false, kMost>);
  } else {
    run(wide ? finish_kernel<kNeighbours, true, kMost> : finish_kernel<1, true, kMost>);
  }
}

}  // namespace

void finish(const Contract& contract, const Finish& stage, bool f32_nodes, cudaStream_t stream) {
  if (stage.out.empty()) return;
  const std::size_t most = std::max(stage.nodes.size(), stage.up.size());
  if (most > kMostFinishNodes)
    throw Error(ErrorCode::refused, "more cover nodes than an engine of GPUs finishes at once");
  const int pending = std::max(most_pending(stage.nodes), most_pending(stage.up));
  if (pending > kMostPending)
    throw Error(ErrorCode::refused, "a tree deeper than an engine of GPUs finishes");
  const bool f32 = f32_nodes || contract.node == Precision::f32;
  if (most <= kFewNodes) {
    launch_finish<kFewNodes>(contract, stage, f32, pending, stream);
  } else {
    launch_finish<kMostFinishNodes>(contract, stage, f32, pending, stream);
  }
}

}  // namespace samebits::engine::SAMEBITS_GPU
