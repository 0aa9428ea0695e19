// What a thread of the tile kernels holds: its chains over a chunk of k, and its pending nodes.
#pragma once

#include "engine/cuda/fma_tiles_load.cuh"
#include "numerics/swiglu.hpp"

namespace samebits::engine::cuda::fma_leaf {

inline constexpr int kTilesShare = kTileSide * kTileSide / kTilesThreads;
inline constexpr int kSharedLevels = 2;  // of bf16 nodes: leaves and pairs of them

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
  float acc[kTilesShare];
  float row[2][8], col[2][16];

  __device__ void read(int to, const float* left, const float* right, int k) {
    const float* const a = left + k * kTileSide;
    const float* const b = right + k * kTileSide;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float4 v = *reinterpret_cast<const float4*>(a + 64 * i);
      row[to][4 * i] = v.x, row[to][4 * i + 1] = v.y, row[to][4 * i + 2] = v.z, row[to][4 * i + 3] = v.w;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 v = *reinterpret_cast<const float4*>(b + 32 * i);
      col[to][4 * i] = v.x, col[to][4 * i + 1] = v.y, col[to][4 * i + 2] = v.z, col[to][4 * i + 3] = v.w;
    }
  }
  template <bool kFirst>
  __device__ void multiply(int from) {
#pragma unroll
    for (int r = 0; r < 8; ++r) {
#pragma unroll
      for (int c = 0; c < 16; ++c) {
        float& a = acc[r * 16 + c];
        a = fmaf(row[from][r], col[from][c], kFirst ? 0.0f : a);
      }
    }
  }
  // Four k; operands of `k` are in place 0, and those of k + 4 are on return. A leaf begins with `kFirst`.
  template <bool kFirst>
  __device__ void four(const float* left, const float* right, int k) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      read((j + 1) % 2, left, right, k + j + 1);
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
    for (float& value : acc) asm volatile("" : "=f"(value));
  }
  // `n` k of one leaf from `k` on.
  __device__ void run(const float* left, const float* right, int k, int n, bool first) {
    read(0, left, right, k);
    if (first) {
      if (n >= 4) {
        four<true>(left, right, k);
        k += 4;
        n -= 4;
      } else {
#pragma unroll
        for (float& value : acc) value = 0.0f;
      }
    }
#pragma unroll 1
    for (; n >= 4; n -= 4, k += 4) four<false>(left, right, k);
#pragma unroll 1
    for (; n > 0; --n) {
      multiply<false>(0);
      read(0, left, right, ++k);
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
    return (place > 0 ? shared + (place - 1) * kParts * kTilesThreads
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
        if (i % 8 == 7) asm volatile("" ::: "memory");  // no more reads at once than registers
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
      if (i % 8 == 7) asm volatile("" ::: "memory");
    }
  }
};

}  // namespace samebits::engine::cuda::fma_leaf
