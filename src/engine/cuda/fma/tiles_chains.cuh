// What a thread of the tile kernels holds: its chains over a chunk of k, and its pending nodes.
#pragma once

#include "engine/cuda/fma/tiles_load.cuh"
#include "numerics/swiglu.hpp"

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {

inline constexpr int kTilesShare = kTileSide * kTileSide / kTilesThreads;

// Value i of a thread: row i / 16, column i % 16 of its share. Rows are two groups of 4, 64 apart; columns
// four groups of 4, 32 apart: so a warp's reads of a k are broadcasts of 64 and of 128 neighbouring bytes.
__device__ inline int tile_row(int i) {
  return i / 64 * 64 + static_cast<int>(threadIdx.x) / 8 * 4 + i / 16 % 4;
}
__device__ inline int tile_col(int i) {
  return i % 16 / 4 * 32 + static_cast<int>(threadIdx.x) % 8 * 4 + i % 4;
}

// A thread's chains.
struct TileChains {
  static constexpr std::uint32_t kStep = kTileSide * 4;  // bytes of a k in shared memory

  float acc[kTilesShare];
  float row[2][8], col[2][16];

  // Addresses in shared memory: of this thread's first row and column at one k.
  __device__ void read(int to, std::uint32_t left, std::uint32_t right) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float* const r = row[to] + 4 * i;
      read_four(r[0], r[1], r[2], r[3], left + static_cast<std::uint32_t>(64 * 4 * i));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float* const c = col[to] + 4 * i;
      read_four(c[0], c[1], c[2], c[3], right + static_cast<std::uint32_t>(32 * 4 * i));
    }
  }
  template <bool kFirst>
  __device__ void multiply(int from) {
    // There and back: each product shares an operand with the one before.
#pragma unroll
    for (int r = 0; r < 8; ++r) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int c = r % 2 == 0 ? i : 15 - i;
        float& a = acc[r * 16 + c];
        if constexpr (kFirst) a = 0.0f;
        fma_here(a, row[from][r], col[from][c]);
      }
    }
  }
  // Four k; operands of the first are in place 0, and those of the one after on return: of the buffer's first
  // k, and in vain, when these are its last. A leaf begins with `kFirst`. `at`: bytes of k.
  template <bool kFirst>
  __device__ void four(std::uint32_t left, std::uint32_t right, std::uint32_t at) {
    const std::uint32_t after = (at + 4 * kStep) % (kTilesChunk * kStep);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t next = j < 3 ? at + static_cast<std::uint32_t>(j + 1) * kStep : after;
      read((j + 1) % 2, left + next, right + next);
      if (kFirst && j == 0) {
        multiply<true>(0);
      } else {
        multiply<false>(j % 2);
      }
    }
  }
  // What the accumulators hold is not needed: the next run begins a leaf. Without this they would keep their
  // registers while nodes are merged.
  __device__ void forget() {
#pragma unroll
    for (float& value : acc) fma_leaf::forget(value);
  }
  // `n` k of one leaf from `k` on.
  __device__ void run(std::uint32_t left, std::uint32_t right, int k, int n, bool first) {
    std::uint32_t at = static_cast<std::uint32_t>(k) * kStep;
    read(0, left + at, right + at);
    if (first) {
      if (n >= 4) {
        four<true>(left, right, at);
        at += 4 * kStep;
        n -= 4;
      } else {
#pragma unroll
        for (float& value : acc) value = 0.0f;
      }
    }
#pragma unroll 1
    for (; n >= 4; n -= 4, at += 4 * kStep) four<false>(left, right, at);
#pragma unroll 1
    for (; n > 0; --n) {
      multiply<false>(0);
      at = (at + kStep) % (kTilesChunk * kStep);
      read(0, left + at, right + at);
    }
  }
};

// Pending nodes of a thread. Of bf16 nodes a leaf and a pair of leaves stay in shared memory, which is three
// quarters of the traffic; the rest is in the block's slot, as all f32 nodes are.
template <bool kBf16>
struct TileStack {
  using Share = NodeShare<kTilesShare, kBf16>;
  static constexpr int kParts = Share::kWords / 4;

  uint4* shared;
  uint4* slot;
  std::uint64_t places = 0;  // two bits an entry, the topmost lowest: 1 and 2 in shared memory, 0 in the slot
  unsigned used = 0;         // places of shared memory
  int height = 0;            // in the slot

  __device__ uint4* base(int place) const {
    return (kSharedLevels > 0 && place > 0 ? shared + (place - 1) * kParts * kTilesThreads
                                           : slot + height * kParts * kTilesThreads) +
           threadIdx.x;
  }
  __device__ void push(const Share& node, int merges) {
    int place = 0;
    if (kBf16 && merges < kSharedLevels && (used >> merges & 1u) == 0) place = merges + 1;
    uint4* const to = base(place);
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      to[i * kTilesThreads] = {node.word[4 * i], node.word[4 * i + 1], node.word[4 * i + 2],
                               node.word[4 * i + 3]};
    }
    places = places << 2 | static_cast<unsigned>(place);
    if (place > 0) used |= 1u << (place - 1);
    if (place == 0) ++height;
  }
  // The topmost, read in place.
  __device__ const uint4* pop() {
    const int place = static_cast<int>(places & 3u);
    places >>= 2;
    if (place > 0) used &= ~(1u << (place - 1));
    if (place == 0) --height;
    return base(place);
  }
  __device__ void merge(int merges, Share& node) {
#pragma unroll 1
    for (; merges > 0; --merges) {
      const uint4* const from = pop();
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        const uint4 v = from[i * kTilesThreads];
        node.add_word(4 * i, v.x), node.add_word(4 * i + 1, v.y);
        node.add_word(4 * i + 2, v.z), node.add_word(4 * i + 3, v.w);
        if (i % kReadsAtOnce == kReadsAtOnce - 1)
          asm volatile("" ::: "memory");  // no more reads at once than registers
      }
    }
  }
  // dX: the pending root of the gate lane and this one of the up lane.
  __device__ void add_lanes(Precision lanes, Share& node) {
    const uint4* const from = pop();
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      const uint4 v = from[i * kTilesThreads];
      const std::uint32_t gate[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if constexpr (kBf16) {
          node.add_word(4 * i + j, gate[j]);
        } else {
          std::uint32_t& word = node.word[4 * i + j];
          word = __float_as_uint(
              numerics::widen(numerics::add_lanes(lanes, __uint_as_float(gate[j]), __uint_as_float(word))));
        }
      }
      if (i % kReadsAtOnce == kReadsAtOnce - 1) asm volatile("" ::: "memory");
    }
  }
};

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
