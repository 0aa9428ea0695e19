#include <algorithm>

#include "engine/cuda/sm90_stream.cuh"
#include "engine/cuda/sm90_stream_epilogue.cuh"

namespace samebits::engine::cuda {

using enum TileLayout;

namespace {

using stream::ActivateElement;
using stream::GradientElement;
using stream::StoreElement;

constexpr int kMostRows = 128;  // of a block: two warpgroups
// Two kernels that follow each other share a multiprocessor: the next one fetches weights while the one
// before ends.
constexpr int kSharedOfPair = 226 * 1024, kSharedOfDual = 128 * 1024;

bool is_dual(const StreamProblem& problem) { return problem.weight[1].data != nullptr && problem.lanes == 1; }

}  // namespace

StreamDevice prepare_stream() {
  stream::prepare_kernels<ActivateElement, 1, k_major>();
  stream::prepare_kernels<StoreElement, 1, k_major>();
  stream::prepare_kernels<StoreElement, 1, mn32>();
  stream::prepare_kernels<StoreElement, 2, mn32>();
  stream::prepare_kernels<GradientElement, 1, mn32>();
  StreamDevice device;
  const auto kernel = stream::stream_kernel<ActivateElement, 32, 2, 1, k_major>;
  for (int i = 0; i < 3; ++i) {
    const int cluster = 1 << i;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(cluster));
    config.blockDim = dim3(288);
    config.dynamicSmemBytes = 120 * 1024;  // one block a multiprocessor
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0;
    check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config), "asking how many clusters fit");
    device.blocks[i] = clusters * cluster;
  }
  return device;
}

bool stream_serves(const StreamProblem& problem, int levels) {
  for (int i = 0; i < 2; ++i) {
    for (const Operand* operand : {&problem.weight[i], &problem.token[i]}) {
      if (operand->data != nullptr && !is_mappable(*operand, problem.k)) return false;
    }
  }
  return problem.token[0].outer <= kStreamTokens && is_k_major(problem.token[0]) &&
         problem.leaves->fits_short() && problem.leaves->levels() + problem.lanes - 1 <= levels;
}

// The smallest share of the busiest block; where shares are equal, the larger cluster, which reads the tokens
// less often.
StreamTuning choose_stream(const StreamProblem& problem, const StreamDevice& device) {
  StreamTuning best;
  const std::int64_t rows = problem.weight[0].outer, tokens = problem.token[0].outer;
  while (best.tokens < tokens) best.tokens *= 2;
  const int parts = is_dual(problem) ? 2 : 1, granule = is_k_major(problem.weight[0]) ? 8 : 32;
  std::int64_t least = 0;
  for (const int cluster : {4, 2, 1}) {
    if (cluster > 1 && best.tokens / cluster < 8) continue;
    const int blocks = device.blocks[cluster / 2];
    if (blocks == 0) continue;
    for (int unit = kMostRows; unit >= granule; unit -= granule) {
      const std::int64_t units = (rows + unit - 1) / unit, share = (units + blocks - 1) / blocks * unit;
      if (least != 0 && share >= least) continue;
      least = share;
      best.rows = unit;
      best.cluster = cluster;
    }
  }
  const int budget = best.tokens > 32 ? kSharedOfPair
                     : parts == 2     ? kSharedOfDual
                                      : kSharedOfPair - kSharedOfDual - 2048;
  best.stages = 2;
  while (best.stages < stream::kMostStages &&
         stream::ring_layout(parts, best.rows, best.tokens, best.stages + 1).bytes() <= budget) {
    ++best.stages;
  }
  return best;
}

void stream_store(const StreamProblem& problem, const Target& target, const StreamResources& resources) {
  const StreamTuning tuning = choose_stream(problem, resources.device);
  const StoreElement epilogue{target};
  if (problem.lanes == 2) {
    stream::launch_stream<StoreElement, 2, mn32>(problem, epilogue, tuning, resources);
  } else if (is_k_major(problem.weight[0])) {
    stream::launch_stream<StoreElement, 1, k_major>(problem, epilogue, tuning, resources);
  } else {
    stream::launch_stream<StoreElement, 1, mn32>(problem, epilogue, tuning, resources);
  }
}

void stream_gate_up(const StreamProblem& problem, const GateUp& stage, Swiglu kind, const float* sigma,
                    const StreamResources& resources) {
  const auto data = [](const View& view) { return static_cast<std::uint16_t*>(view.data); };
  const ActivateElement epilogue{data(stage.gate_out),
                                 data(stage.up_out),
                                 data(stage.act),
                                 stage.gate_out.row_stride,
                                 stage.up_out.row_stride,
                                 stage.act.row_stride,
                                 sigma,
                                 kind,
                                 stage.keep};
  stream::launch_stream<ActivateElement, 1, k_major>(problem, epilogue,
                                                     choose_stream(problem, resources.device), resources);
}

void stream_d_act(const StreamProblem& problem, const DAct& stage, Swiglu kind, const float* sigma,
                  const StreamResources& resources) {
  const auto read = [](const ConstView& view) { return static_cast<const std::uint16_t*>(view.data); };
  const auto write = [](const View& view) { return static_cast<std::uint16_t*>(view.data); };
  const GradientElement epilogue{read(stage.gate),
                                 read(stage.up),
                                 write(stage.d_gate),
                                 write(stage.d_up),
                                 stage.gate.row_stride,
                                 stage.up.row_stride,
                                 stage.d_gate.row_stride,
                                 stage.d_up.row_stride,
                                 sigma,
                                 kind};
  stream::launch_stream<GradientElement, 1, mn32>(problem, epilogue, choose_stream(problem, resources.device),
                                                  resources);
}

}  // namespace samebits::engine::cuda
