// Kernels of wide.cuh, and their launch.
#include <string>

#include "engine/cuda/built_kernels.hpp"
#include "engine/cuda/sm90/wide.cuh"
#include "samebits/error.hpp"

namespace samebits::engine::cuda {
namespace wide {
namespace {

template <WideTuning kTuning>
using ShapeOf = Shape<kTuning.width, kTuning.groups, kTuning.parts, kTuning.boxes>;

template <class Shape>
void prepare_shape(TileDevice& device) {
  allow_shared_memory(wide_kernel<Shape, TileLayout::k_major>, kShared);
  allow_shared_memory(wide_kernel<Shape, TileLayout::mn64>, kShared);
  int& most = device.most[Shape::kCluster - 1];
  const int blocks =
      resident_blocks(wide_kernel<Shape, TileLayout::mn64>, Shape::kThreads, kShared, Shape::kCluster);
  most = most == 0 ? blocks : std::min(most, blocks);
}

template <class Shape>
void launch_shape(const TileProblem& problem, const Target& target, const TileResources& resources) {
  const Room room = room_for<Shape>(problem.leaves->levels() + problem.lanes - 1);
  Arguments args{};
  // Boxes of tokens end with the tokens: what lies outside would be slow to come.
  const int tokens = static_cast<int>(problem.left[0].outer);
  args.share[0] = std::min(groups_of(tokens, 8 * Shape::kCluster) * 8, tokens);
  args.share[1] = tokens - args.share[0];
  for (int lane = 0; lane < problem.lanes; ++lane) {
    args.weight[lane] = make_tensor_map(problem.right[lane], problem.k, kBox, kBox / Shape::kCluster);
    for (int rank = 0; rank < 2; ++rank)
      args.token[lane][rank] =
          make_tensor_map(problem.left[lane], problem.k, kBox, std::max(1, args.share[rank]));
  }
  args.leaves = problem.leaves->list<ShortLeafList>();
  args.rows = problem.right[0].outer;
  args.tiles = groups_of(args.rows, kRows);
  args.lanes = problem.lanes;
  args.stages = room.stages;
  args.pending = room.pending ? nullptr : resources.pending;
  args.levels = resources.levels;
  args.bf16_nodes = problem.bf16_nodes;
  args.lanes_precision = problem.lanes_precision;
  args.target = target;
  const int clusters = std::min(args.tiles, resources.device.blocks(Shape::kCluster) / Shape::kCluster);
  LaunchShape shape{clusters * Shape::kCluster, Shape::kThreads, room.bytes, Shape::kCluster};
  shape.early = resources.early;
  const auto kernel = is_k_major(problem.right[0]) ? wide_kernel<Shape, TileLayout::k_major>
                                                   : wide_kernel<Shape, TileLayout::mn64>;
  launch(kernel, shape, resources.stream, "contraction of up to 128 tokens", args);
}

}  // namespace
}  // namespace wide

TileDevice prepare_wide() {
  TileDevice device;
  for_each_built<kWideTunings>(
      [&]<WideTuning kTuning>() { wide::prepare_shape<wide::ShapeOf<kTuning>>(device); });
  return device;
}

void wide_store(const TileProblem& problem, const Target& target, const WideTuning& tuning,
                const TileResources& resources) {
  const bool launched = any_built<kWideTunings>([&]<WideTuning kTuning>() {
    if (!(tuning == kTuning)) return false;
    wide::launch_shape<wide::ShapeOf<kTuning>>(problem, target, resources);
    return true;
  });
  if (!launched)
    throw Error(ErrorCode::internal, "no kernel is built for " + std::to_string(tuning.parts) + " parts of " +
                                         std::to_string(tuning.groups) + " x " +
                                         std::to_string(tuning.width) + " tokens, " +
                                         std::to_string(tuning.boxes) + " boxes a stage");
}

}  // namespace samebits::engine::cuda
