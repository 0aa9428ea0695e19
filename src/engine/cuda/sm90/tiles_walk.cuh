// What a launch of tiles.cuh is told, and where a block is in it.
#pragma once

#include "engine/cuda/sm90/epilogue.cuh"
#include "engine/cuda/sm90/tiles.hpp"
#include "engine/cuda/sm90/tiles_ring.cuh"

namespace samebits::engine::cuda::tiles {

template <class Epilogue>
struct Arguments {
  CUtensorMap left[2], right[2];
  CUtensorMap left_end[2];                            // of rows by k: what is left of the last tile's
  CUtensorMap result[Epilogue::kResults], source[2];  // where results leave through the ring
  bool staged;                                        // so they do
  ShortLeafList leaves;
  std::int64_t rows, cols;  // of the result
  ClusterShape cluster;
  int row_groups, col_groups;                   // clusters of tiles
  int parts_in_turn;                            // of the rows: neighbours in the walk are of different ones
  int left_bytes, left_end_bytes, right_bytes;  // that arrive in a stage of the ring
  float* pending;
  int levels;
  bool bf16_nodes;
  Precision lanes;
  Epilogue epilogue;
};

// Where a block is: the tiles of its clusters, and its place in them.
template <class Epilogue>
struct TileWalk {
  const Arguments<Epilogue>& args;
  int rank, row_rank, col_rank, size;  // of the cluster

  __device__ explicit TileWalk(const Arguments<Epilogue>& arguments)
      : args(arguments),
        rank(static_cast<int>(cluster_rank())),
        row_rank(rank / args.cluster.cols),
        col_rank(rank % args.cluster.cols),
        size(args.cluster.rows * args.cluster.cols) {}
  __device__ int first() const { return static_cast<int>(blockIdx.x) / size; }
  __device__ int step() const { return static_cast<int>(gridDim.x) / size; }
  __device__ int total() const { return args.row_groups * args.col_groups; }

  // Clusters walk down a band of rows before they go on to the next columns, so that what runs at once shares
  // operands in L2.
  template <int kColumns>
  __device__ TilePlace place(int index) const {
    const int band = 16 / args.cluster.rows, per_band = band * args.col_groups;
    const int begin = index / per_band * band, height = min(band, args.row_groups - begin),
              within = index % per_band;
    const int row_group = begin + within % height, col_group = within / height;
    return {(std::int64_t{in_turn(row_group)} * args.cluster.rows + row_rank) * kRows,
            (std::int64_t{col_group} * args.cluster.cols + col_rank) * kColumns, args.rows, args.cols};
  }

 private:
  // The first group of each part, then the second of each, ...: what goes to other memory leaves at all
  // times, not all at once. Parts are as even as whole groups allow, the longer ones first.
  __device__ int in_turn(int group) const {
    const int parts = args.parts_in_turn;
    if (parts <= 1) return group;
    const int part = group % parts, even = args.row_groups / parts, longer = args.row_groups % parts;
    return part * even + min(part, longer) + group / parts;
  }
};

// Columns of the result in a tile: gate and up stand side by side in its right operand.
template <class Epilogue, class Shape>
inline constexpr int kResultColumns = Shape::kWidth / Epilogue::kParts;

}  // namespace samebits::engine::cuda::tiles
