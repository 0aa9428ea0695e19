// The kernel of outer.cuh, and its launch.
#include <algorithm>

#include "engine/cuda/launch.hpp"
#include "engine/cuda/sm90/outer.cuh"
#include "engine/cuda/sm90/outer.hpp"
#include "engine/cuda/sm90/tensor_map.hpp"

namespace samebits::engine::cuda {
namespace {

Operand result_of(const TileProblem& problem, const Target& target) {
  return {static_cast<std::uint16_t*>(target.data), problem.left[0].outer, target.row_stride};
}

}  // namespace

bool outer_serves(const TileProblem& problem, const Target& target) {
  const Operand &left = problem.left[0], &right = problem.right[0];
  if (problem.lanes != 1 || problem.k > kOuterTokens || problem.leaves->count() != 1 ||
      problem.leaves->nodes() != 1)
    return false;
  if (left.outer_stride != 1 || right.outer_stride != 1 || !is_mappable(left, problem.k) ||
      !is_mappable(right, problem.k))
    return false;
  // The copy engine writes sixteen bytes or none at the end of a row.
  return !target.f32 && target.slices == 0 && target.col_stride == 1 && right.outer % 8 == 0 &&
         is_mappable(result_of(problem, target), right.outer);
}

void prepare_outer() { allow_shared_memory(outer::outer_kernel, outer::kSharedBytes); }

void outer_store(const TileProblem& problem, const Target& target, const OuterResources& resources) {
  const Operand &left = problem.left[0], &right = problem.right[0];
  const auto tokens = static_cast<int>(problem.k);
  const int turns = groups_of(tokens, outer::kTurn);
  outer::Arguments args{};
  args.tokens = tokens;
  args.turn = groups_of(groups_of(tokens, turns), 16) * 16;
  args.left = make_tensor_map(left, problem.k, 64, args.turn);
  args.right = make_tensor_map(right, problem.k, 64, args.turn);
  args.result = make_tensor_map(result_of(problem, target), right.outer, 64, 64);
  args.rows = left.outer;
  args.cols = right.outer;
  args.col_tiles = groups_of(args.cols, outer::kColumns);
  args.tiles = groups_of(args.rows, outer::kRows) * args.col_tiles;
  LaunchShape shape{std::min(args.tiles, resources.multiprocessors), outer::kThreads, outer::kSharedBytes};
  shape.early = resources.early;
  launch(outer::outer_kernel, shape, resources.stream, "weight gradient of few tokens", args);
}

}  // namespace samebits::engine::cuda
