// From problems to a launch of tiles.cuh.
#pragma once

#include <algorithm>
#include <string>

#include "engine/cuda/built_kernels.hpp"
#include "engine/cuda/launch.hpp"
#include "engine/cuda/sm90/tensor_map.hpp"
#include "engine/cuda/sm90/tiles.cuh"
#include "samebits/error.hpp"

namespace samebits::engine::cuda::tiles {

// bf16 matrices that leave and come through the ring, as operands whose k are the columns; none if results
// are written element by element.
struct Staged {
  int count = 0;
  Operand result[3] = {};
  Operand source[2] = {};
};
inline bool can_be_staged(const Operand& matrix, std::int64_t cols) {
  // The copy engine writes sixteen bytes or none at the end of a row.
  return matrix.data == nullptr || (cols % 8 == 0 && is_mappable(matrix, cols));
}

template <const auto& kWidths, class Epilogue, int kLanes, TileLayout kLeft, TileLayout kRight>
void prepare_kernels() {
  for_each_built<kWidths>([&]<int kWidth>() {
    allow_shared_memory(tile_kernel<Epilogue, Shape<kWidth>, kLanes, kLeft, kRight>,
                        Ring<Shape<kWidth>>::shared_bytes(Epilogue::kSigma));
  });
}

template <class Epilogue, class Shape, int kLanes, TileLayout kLeft, TileLayout kRight>
void launch_shape(const TileProblem& problem, const Epilogue& epilogue, const Staged& staged,
                  const ClusterShape& cluster, const TileResources& resources) {
  constexpr bool kDual = Epilogue::kParts == 2;
  constexpr int kColumns = kResultColumns<Epilogue, Shape>;
  Arguments<Epilogue> args{};
  // A short axis: no steps are made beyond its end.
  const int turn = static_cast<int>(std::min<std::int64_t>(kTurn, groups_of(problem.k, 16) * 16));
  const int left_rows = kLeft == TileLayout::k_major ? kRows / cluster.cols : turn;
  const int left_end = static_cast<int>(problem.left[0].outer % kRows);  // 0: there is no such tile
  const int right_rows =
      kRight == TileLayout::k_major ? (kDual ? kColumns : Shape::kWidth / cluster.rows) : turn;
  const int left_boxes = kLeft == TileLayout::k_major ? cluster.cols : kRows / 64;
  const int right_boxes = kRight == TileLayout::k_major ? (kDual ? 2 : cluster.rows) : Shape::kWidth / 64;
  args.left_bytes = left_rows * left_boxes * kTurn * 2;
  args.left_end_bytes = left_end * kTurn * 2;
  args.right_bytes = right_rows * right_boxes * kTurn * 2;
  for (int i = 0; i < 2; ++i) {
    const Operand& left = problem.left[kLanes == 2 ? i : 0];
    const Operand& right = problem.right[kLanes == 2 || kDual ? i : 0];
    args.left[i] = make_tensor_map(left, problem.k, 64, left_rows);
    args.left_end[i] = make_tensor_map(left, problem.k, 64, left_end > 0 ? left_end : left_rows);
    args.right[i] = make_tensor_map(right, problem.k, 64, right_rows);
  }
  args.leaves = problem.leaves->list<ShortLeafList>();
  args.rows = problem.left[0].outer;
  args.cols = problem.right[0].outer;
  args.cluster = cluster;
  args.row_groups = groups_of(args.rows, kRows * cluster.rows);
  args.col_groups = groups_of(args.cols, kColumns * cluster.cols);
  args.parts_in_turn = problem.parts_in_turn;
  args.pending = resources.pending;
  args.levels = resources.levels;
  args.bf16_nodes = problem.bf16_nodes;
  args.lanes = problem.lanes_precision;
  args.epilogue = epilogue;
  args.staged = staged.count > 0;
  for (int i = 0; i < 2 && args.staged; ++i) args.staged = can_be_staged(staged.source[i], args.cols);
  for (int i = 0; i < staged.count && args.staged; ++i)
    args.staged = can_be_staged(staged.result[i], args.cols);
  for (int i = 0; i < staged.count && args.staged; ++i) {
    args.result[i] = make_tensor_map(staged.result[i], args.cols, Shape::kBoxColumns, 64);
  }
  for (int i = 0; i < 2 && args.staged && Epilogue::kLoads; ++i) {
    args.source[i] = make_tensor_map(staged.source[i], args.cols, Shape::kBoxColumns, 64);
  }
  const int size = cluster.rows * cluster.cols;
  const int clusters = std::min(args.row_groups * args.col_groups, resources.device.blocks(size) / size);
  LaunchShape shape{clusters * size, kThreads, Ring<Shape>::shared_bytes(Epilogue::kSigma), size};
  shape.early = resources.early;
  launch(tile_kernel<Epilogue, Shape, kLanes, kLeft, kRight>, shape, resources.stream, "contraction in tiles",
         args);
}

template <const auto& kWidths, class Epilogue, int kLanes, TileLayout kLeft, TileLayout kRight>
void launch_tiles(const TileProblem& problem, const Epilogue& epilogue, const Staged& staged,
                  const TileTuning& tuning, const TileResources& resources) {
  const bool launched = any_built<kWidths>([&]<int kWidth>() {
    if (tuning.width != kWidth) return false;
    launch_shape<Epilogue, Shape<kWidth>, kLanes, kLeft, kRight>(problem, epilogue, staged, tuning.cluster,
                                                                 resources);
    return true;
  });
  if (!launched)
    throw Error(ErrorCode::internal,
                "no kernel is built for tiles of " + std::to_string(tuning.width) + " columns");
}

}  // namespace samebits::engine::cuda::tiles
