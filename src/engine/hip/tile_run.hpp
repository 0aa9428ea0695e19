// The tiles of a contraction as one workgroup runs them, phase by phase. `Group` says who the threads are:
// the kernel's (tiles.hip), or those of the host's emulation (tests/support/emulated_group.hpp). It has
//   block(), blocks()      which workgroup this is, of how many
//   memory()               its LDS
//   each(body)             body(thread, state) on every thread
//   barrier()              what each() left in LDS is seen by all
//   matrix_step()          sum += a * b on every wave's fragments, one group of 8 k
#pragma once

#include "engine/hip/tile_arguments.hpp"
#include "engine/hip/tile_thread.hpp"

namespace samebits::engine::hip {

// One leaf, or the part of it that lies in the operands, k from `begin` on.
template <Leaf kLeaf, class Group>
[[gnu::always_inline]] SAMEBITS_HD inline void run_leaf(Group& group, const Operand& left,
                                                        const Operand& right, std::int64_t row0,
                                                        std::int64_t col0, std::int64_t begin, int length) {
  const auto count_at = [&](int k) { return length - k < kTileChunk ? length - k : kTileChunk; };
  if constexpr (kLeaf != Leaf::fma) group.each([&](int, TileThread& mine) { mine.give_to_matrix_cores(); });
  // A chunk is fetched while the one before is multiplied; the first turn only fetches.
  for (int k = -kTileChunk; k < length; k += kTileChunk) {
    if (k >= 0) {
      group.barrier();  // what was in LDS has been read
      group.each([&](int thread, TileThread& mine) {
        mine.left.place(left.k_stride == 1, group.memory().chunk.left, thread);
        mine.right.place(right.k_stride == 1, group.memory().chunk.right, thread);
      });
      group.barrier();
    }
    if (const int next = k + kTileChunk; next < length) {
      group.each([&](int thread, TileThread& mine) {
        mine.left.fetch(left, row0, begin + next, count_at(next), thread);
        mine.right.fetch(right, col0, begin + next, count_at(next), thread);
      });
    }
    if (k < 0) continue;
    const int count = count_at(k);
    if constexpr (kLeaf == Leaf::fma) {
      for (int first = 0; first < count; first += 4) {
        group.each([&](int thread, TileThread& mine) {
          mine.multiply(group.memory(), first, count - first, thread);
        });
      }
    } else {
      // Whole groups of 16: two instructions, the second chained on the first.
      for (int step = 0; step < (count + 15) / 16 * 2; ++step) {
        group.each([&](int thread, TileThread& mine) { mine.take_fragments(group.memory(), step, thread); });
        group.matrix_step();
      }
    }
  }
  if constexpr (kLeaf != Leaf::fma) group.each([&](int, TileThread& mine) { mine.take_from_matrix_cores(); });
}

// body(value, row, col) of every result of the tile that lies in the matrix, a fragment of each wave at a
// time, in LDS. With kTakes the waves take back what body has made of the values; those outside the matrix
// stay as they are.
template <bool kTakes, class Group, class Body>
[[gnu::always_inline]] SAMEBITS_HD inline void pass_results(Group& group, std::int64_t row0,
                                                            std::int64_t col0, std::int64_t rows,
                                                            std::int64_t cols, const Body& body) {
  unrolled<kSide * kSide>([&](auto f) {
    constexpr int kM = f / kSide, kN = f % kSide;
    group.barrier();
    group.each(
        [&](int thread, TileThread& mine) { mine.template put_fragment<kM, kN>(group.memory(), thread); });
    group.barrier();
    group.each([&](int thread, TileThread&) {
      for_each_in_fragment(group.memory(), kM, kN, row0, col0, rows, cols, thread, body);
    });
    if constexpr (kTakes) {
      group.barrier();
      group.each(
          [&](int thread, TileThread& mine) { mine.template take_fragment<kM, kN>(group.memory(), thread); });
    }
  });
}

template <Leaf kLeaf, class Group, class List>
[[gnu::always_inline]] SAMEBITS_HD inline void run_tiles(Group& group, const TileArguments& args,
                                                         const List& leaves) {
  const std::int64_t rows = args.left[0].outer, cols = args.right[0].outer;
  const std::int64_t down = tiles_along(rows), across = tiles_along(cols), tiles = down * across * args.count;
  float* const slot = args.pending.data + group.block() * args.pending.levels * kTileLevel;
  for (std::int64_t tile = group.block(); tile < tiles; tile += group.blocks()) {
    const std::int64_t which = tile / (down * across), place = tile - which * down * across;
    const std::int64_t row0 = place / across * kTile, col0 = place % across * kTile;
    const Target& target = args.target[which];
    int height = 0;  // of the stack of pending nodes in the slot
    for (int lane = 0; lane < args.lanes; ++lane) {
      const Operand &left = args.left[which + lane], &right = args.right[which + lane];
      std::int64_t begin = 0;
      int node = 0;
      for (int i = 0; i < leaves.count; ++i) {
        const LeafStep leaf = leaves.step[i];
        group.each([&](int, TileThread& mine) { mine.clear(); });
        const Carried& carried = args.carried;
        if (carried.resumes && i == 0) {
          pass_results<true>(group, row0, col0, rows, cols,
                             [&](float& value, std::int64_t row, std::int64_t col) {
                               value = carried.data[row * carried.row_stride + col];
                             });
        }
        run_leaf<kLeaf>(group, left, right, row0, col0, begin, leaf.length());
        begin += leaf.length();
        if (carried.stays_open && i + 1 == leaves.count) {
          pass_results<false>(group, row0, col0, rows, cols,
                              [&](float value, std::int64_t row, std::int64_t col) {
                                carried.data[row * carried.row_stride + col] = value;
                              });
          break;
        }
        group.each([&](int, TileThread& mine) { mine.round(args.bf16_nodes); });
        for (int merges = leaf.merges(); merges > 0; --merges) {
          const float* const level = slot + --height * kTileLevel;
          group.each([&](int thread, TileThread& mine) { mine.merge(level, args.bf16_nodes, thread); });
        }
        if (!leaf.emits() || lane + 1 < args.lanes) {
          float* const level = slot + height++ * kTileLevel;
          group.each([&](int thread, TileThread& mine) { mine.push(level, thread); });
          continue;
        }
        if (lane > 0) {  // the root of the lane before is pending
          const float* const level = slot + --height * kTileLevel;
          group.each(
              [&](int thread, TileThread& mine) { mine.add_lanes(level, args.lanes_precision, thread); });
        }
        pass_results<false>(
            group, row0, col0, rows, cols, [&](float value, std::int64_t row, std::int64_t col) {
              store_node(target,
                         row * target.row_stride + col * target.col_stride + node * target.node_stride,
                         value);
            });
        ++node;
      }
    }
  }
}

}  // namespace samebits::engine::hip
