// The thread of tiles.cuh that feeds the ring: with operands, and at the end of a tile with stages for
// its results.
#pragma once

#include "engine/cuda/sm90/tiles_walk.cuh"
#include "engine/cuda/sm90/wgmma.cuh"

namespace samebits::engine::cuda::tiles {

template <class Epilogue, class Shape, int kLanes, TileLayout kLeft, TileLayout kRight>
struct TileProducer {
  static constexpr bool kDual = Epilogue::kParts == 2;  // gate and up side by side in the right tile
  using Ring = tiles::Ring<Shape>;
  using Walk = TileWalk<Epilogue>;
  static constexpr int kStages = Shape::kStages, kColumns = kResultColumns<Epilogue, Shape>;
  static constexpr int kChunks = Epilogue::template kChunks<Shape>;

  // What this block brings of the operand tiles. Blocks of a cluster that need the same tile bring equal
  // parts of it, each to all of them: the left one is shared along a row of the cluster, the right one down a
  // column. A part is some of the rows; or every second chunk of 64 columns, every second of gate and up.
  struct Parts {
    int along_row, down_column;  // blocks that share: the cluster's extents
    int col_rank, row_rank;
    int left_row, right_row;
    std::uint16_t left_blocks, right_blocks;

    __device__ Parts(const ClusterShape& cluster, const Walk& walk)
        : along_row(cluster.cols),
          down_column(cluster.rows),
          col_rank(walk.col_rank),
          row_rank(walk.row_rank),
          left_row(kRows / along_row * col_rank),
          right_row(Shape::kWidth / down_column * row_rank),
          left_blocks(static_cast<std::uint16_t>(((1 << along_row) - 1) << (row_rank * along_row))),
          right_blocks(0) {
      for (int row = 0; row < down_column; ++row)
        right_blocks |= static_cast<std::uint16_t>(1 << (row * along_row + col_rank));
    }
  };

  // A box of 64 k of rows, or of 64 columns of some k.
  __device__ static void copy(unsigned char* to, const CUtensorMap* map, int x, int y, std::uint64_t* full,
                              int sharers, std::uint16_t blocks) {
    if (sharers == 1) {
      load_tile(to, map, x, y, full, Keep::normal);
    } else {
      load_tile_for_all(to, map, x, y, full, blocks, Keep::normal);
    }
  }

  // What a tile brings of its left operand: rows beyond the last are not brought (they would be slow to
  // come), and what is in their place is contracted but not stored.
  struct LeftRows {
    const CUtensorMap* map;
    bool some = true;
    std::uint32_t stage_bytes;

    __device__ LeftRows(const Arguments<Epilogue>& args, const TilePlace& place, int lane)
        : map(&args.left[lane]), stage_bytes(static_cast<std::uint32_t>(args.left_bytes + args.right_bytes)) {
      if (kLeft != TileLayout::k_major || place.row + kRows <= place.rows || args.cluster.cols > 1) return;
      some = place.row < place.rows;
      map = &args.left_end[lane];
      stage_bytes = static_cast<std::uint32_t>((some ? args.left_end_bytes : 0) + args.right_bytes);
    }
  };

  // Operand tiles of one stage: nothing here that a turn of the ring would have to wait for.
  __device__ static void load(const Arguments<Epilogue>& args, const Ring& ring, const Parts& parts,
                              const LeftRows& rows, int stage, int lane, int k, int row, int col) {
    std::uint64_t* const full = ring.full(stage);
    barrier_expect(full, rows.stage_bytes);
    unsigned char* const left = ring.left(stage);
    if constexpr (kLeft == TileLayout::k_major) {
      if (rows.some) {
        copy(left + parts.left_row * kTurn * 2, rows.map, k, row + parts.left_row, full, parts.along_row,
             parts.left_blocks);
      }
    } else {
      for (int chunk = parts.col_rank; chunk < kRows / 64; chunk += parts.along_row) {
        copy(left + chunk * 64 * kTurn * 2, &args.left[lane], row + chunk * 64, k, full, parts.along_row,
             parts.left_blocks);
      }
    }
    unsigned char* const right = ring.right(stage);
    if constexpr (kDual) {
      for (int half = parts.row_rank; half < 2; half += parts.down_column) {
        copy(right + half * Shape::kRightBytes / 2, &args.right[half], k, col, full, parts.down_column,
             parts.right_blocks);
      }
    } else if constexpr (kRight == TileLayout::k_major) {
      copy(right + parts.right_row * kTurn * 2, &args.right[lane], k, col + parts.right_row, full,
           parts.down_column, parts.right_blocks);
    } else {
      for (int chunk = parts.row_rank; chunk < Shape::kWidth / 64; chunk += parts.down_column) {
        copy(right + chunk * 64 * kTurn * 2, &args.right[lane], col + chunk * 64, k, full, parts.down_column,
             parts.right_blocks);
      }
    }
  }

  // A stage for results, with what they are made of.
  __device__ static void lend(const Arguments<Epilogue>& args, const Ring& ring, int stage, int row,
                              int col) {
    std::uint64_t* const full = ring.full(stage);
    if constexpr (Epilogue::kLoads) {
      barrier_expect(full, 2 * Shape::kBoxBytes);
      for (int i = 0; i < 2 * kGroups; ++i) {
        const int box = i / kGroups, half = i % kGroups;
        load_tile(ring.box(stage, box) + half * Shape::kHalfBoxBytes, &args.source[box], col, row + half * 64,
                  full, Keep::normal);
      }
    } else {
      barrier_arrive(full);
    }
  }

  __device__ static void produce(const Arguments<Epilogue>& args, const Ring& ring, const Walk& walk) {
    const Parts parts(args.cluster, walk);
    RingPlace at;
    for (int tile = walk.first(); tile < walk.total(); tile += walk.step()) {
      const TilePlace place = walk.template place<kColumns>(tile);
      const int row = static_cast<int>(place.row), col = static_cast<int>(place.col);
      for (int lane = 0; lane < kLanes; ++lane) {
        const LeftRows rows(args, place, lane);
        int begin = 0;
        for (int i = 0; i < args.leaves.count; ++i) {
          const int length = args.leaves.step[i].length();
          for (int k = 0; k < length; k += kTurn) {
            barrier_wait(ring.empty(at.stage), at.phase ^ 1u);
            load(args, ring, parts, rows, at.stage, lane, begin + k, row, col);
            at.advance(kStages);
          }
          begin += length;
        }
      }
      if (!args.staged) continue;
      const int stages = args.epilogue.template chunk_stages<Shape>();
      for (int i = 0; i < kChunks * stages; ++i) {
        barrier_wait(ring.empty(at.stage), at.phase ^ 1u);
        lend(args, ring, at.stage, row, col + i / stages * Shape::kBoxColumns);
        at.advance(kStages);
      }
    }
  }
};

}  // namespace samebits::engine::cuda::tiles
