// Kernels of sm90_wide.cuh, and their launch.
#include "engine/cuda/sm90_wide.cuh"

namespace samebits::engine::cuda {
namespace wide {
namespace {

template <class... Shapes>
struct ShapeList {};

// choose_wide names no other.
using Shapes = ShapeList<Shape<32, 2, 1, 2>, Shape<32, 4, 1, 2>, Shape<64, 1, 2, 1>>;

template <class Shape>
void prepare_shape(TileDevice& device) {
  allow_shared_memory(wide_kernel<Shape, TileLayout::k_major>, kShared);
  allow_shared_memory(wide_kernel<Shape, TileLayout::mn64>, kShared);
  int& most = device.most[Shape::kCluster - 1];
  const int blocks =
      resident_blocks(wide_kernel<Shape, TileLayout::mn64>, Shape::kThreads, kShared, Shape::kCluster);
  most = most == 0 ? blocks : std::min(most, blocks);
}

template <class... Every>
TileDevice prepare_shapes(ShapeList<Every...>) {
  TileDevice device;
  (prepare_shape<Every>(device), ...);
  return device;
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

template <class... Every>
void launch_wide(ShapeList<Every...>, const TileProblem& problem, const Target& target,
                 const WideTuning& tuning, const TileResources& resources) {
  const auto try_shape = [&]<class Shape>(Shape) {
    if (tuning.width != Shape::kWidth || tuning.groups != Shape::kGroups || tuning.parts != Shape::kParts)
      return false;
    launch_shape<Shape>(problem, target, resources);
    return true;
  };
  static_cast<void>((try_shape(Every{}) || ...));
}

}  // namespace
}  // namespace wide

TileDevice prepare_wide() { return wide::prepare_shapes(wide::Shapes()); }

void wide_store(const TileProblem& problem, const Target& target, const WideTuning& tuning,
                const TileResources& resources) {
  wide::launch_wide(wide::Shapes(), problem, target, tuning, resources);
}

}  // namespace samebits::engine::cuda
