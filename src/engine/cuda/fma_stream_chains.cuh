// What a thread of the stream kernels holds: its chains over a chunk of k, and its pending nodes.
#pragma once

#include "engine/cuda/fma_stream_ring.cuh"
#include "engine/cuda/fma_words.cuh"

namespace samebits::engine::cuda::fma_leaf {

// A thread's chains over one chunk of k. Operands are read ahead of their use: x of kAhead k, weights of 4 to
// 8 k by rows and of kAhead k by columns.
template <int kTokens, int kRows, bool kColumns>
struct StreamChains {
  static constexpr int kAhead = kTokens >= 16 ? 2 : kTokens == 8 ? 4 : 8;
  static constexpr int kCount = kTokens * kRows;
  static constexpr int kPitch = stream_x_pitch(kTokens);
  static constexpr bool kFourK = kTokens == 1 && !kColumns;  // x of four k in one word

  float acc[kCount];  // [row][token]
  float x[kAhead][kTokens];
  uint2 weight[kColumns ? kAhead : 2 * kRows];

  const unsigned char* weights;  // of this thread's first row, in the stage
  const float* xs;               // of this thread's first token
  int tile_bytes;                // of a k of the weights by columns
  int row_bytes;                 // between this thread's rows
  int swizzle;

  __device__ void reset() {
#pragma unroll
    for (float& value : acc) value = 0.0f;
  }
  __device__ void read_x(float (&to)[kTokens], int k) const {
    const float* const from = xs + k * kPitch;
    if constexpr (kTokens == 1) {
      to[0] = *from;
    } else {
#pragma unroll
      for (int t = 0; t < kTokens; t += 4) {
        const float4 v = *reinterpret_cast<const float4*>(from + t);
        to[t] = v.x, to[t + 1] = v.y, to[t + 2] = v.z, to[t + 3] = v.w;
      }
    }
  }
  __device__ void read_four_k(int to, int k) {
    const float4 v = *reinterpret_cast<const float4*>(xs + k);
    x[to][0] = v.x, x[to + 1][0] = v.y, x[to + 2][0] = v.z, x[to + 3][0] = v.w;
  }
  // By columns: this thread's kRows (2 or 4) neighbours at k.
  __device__ uint2 read_columns(int k) const {
    const unsigned char* const from = weights + k * tile_bytes;
    if constexpr (kRows == 4) return *reinterpret_cast<const uint2*>(from);
    return {*reinterpret_cast<const std::uint32_t*>(from), 0};
  }
  // By rows: of this thread's row 0, the 8 k of group `k / 8`.
  __device__ const unsigned char* group_at(int k) const { return weights + (((k >> 3) ^ swizzle) << 4); }
  __device__ uint2 read_row(const unsigned char* group, int r, int half) const {
    return read_two(group + r * row_bytes + half * 8);
  }

  __device__ void multiply(const float (&w)[kRows], const float (&v)[kTokens]) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int t = 0; t < kTokens; ++t) acc[r * kTokens + t] = fmaf(v[t], w[r], acc[r * kTokens + t]);
    }
  }

  // Before the first group of a run.
  __device__ void prime(int k) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) read_x(x[i], k + i);
    if constexpr (kColumns) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) weight[i] = read_columns(k + i);
    } else {
      const unsigned char* const from = group_at(k);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        weight[r] = read_row(from, r, 0);
        weight[kRows + r] = read_row(from, r, 1);
      }
    }
  }

  // 8 k. What it reads ahead may lie behind the chunk, and is then not used.
  __device__ void group(int k) {
    const unsigned char* const next = kColumns ? nullptr : group_at(k + 8);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float w[kRows];
      if constexpr (kColumns) {
        const uint2 v = weight[j % kAhead];
        w[0] = low_of(v.x), w[1] = high_of(v.x);
        if constexpr (kRows == 4) w[2] = low_of(v.y), w[3] = high_of(v.y);
        weight[j % kAhead] = read_columns(k + j + kAhead);
      } else {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          uint2& v = weight[j / 4 * kRows + r];
          const std::uint32_t word = j % 4 < 2 ? v.x : v.y;
          w[r] = j % 2 == 0 ? low_of(word) : high_of(word);
          if (j % 4 == 3) v = read_row(next, r, j / 4);
        }
      }
      multiply(w, x[j % kAhead]);
      if constexpr (!kFourK) read_x(x[j % kAhead], k + j + kAhead);
      if constexpr (kFourK) {
        if (j % 4 == 3) read_four_k(j - 3, k + j + 5);
      }
    }
  }

  // One k, where a leaf ends inside a group.
  __device__ void single(int k) {
    float w[kRows], v[kTokens];
    read_x(v, k);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const unsigned char* const from =
          kColumns ? weights + k * tile_bytes + r * 2
                   : weights + r * row_bytes + (((k >> 3) ^ swizzle) << 4) + (k & 7) * 2;
      w[r] = numerics::widen(*reinterpret_cast<const Bf16*>(from));
    }
    multiply(w, v);
  }
};

// Pending nodes of a thread in shared memory, in words as wide as they allow.
template <int kCount, bool kBf16>
struct StreamStack {
  using Share = NodeShare<kCount, kBf16>;
  static constexpr int kWide = Share::kWords % 4 == 0 ? 4 : Share::kWords % 2 == 0 ? 2 : 1;

  std::uint32_t* data;  // of this thread: level l, part i at (l * parts + i) * threads * kWide
  int height = 0;

  __device__ std::uint32_t* at(int level, int part) const {
    return data + (level * (Share::kWords / kWide) + part) * static_cast<int>(blockDim.x) * kWide;
  }
  __device__ void push(const Share& node) {
#pragma unroll
    for (int i = 0; i < Share::kWords / kWide; ++i) {
      std::uint32_t* const to = at(height, i);
      const std::uint32_t* const from = node.word + i * kWide;
      if constexpr (kWide == 4) *reinterpret_cast<uint4*>(to) = {from[0], from[1], from[2], from[3]};
      if constexpr (kWide == 2) *reinterpret_cast<uint2*>(to) = {from[0], from[1]};
      if constexpr (kWide == 1) *to = from[0];
    }
    ++height;
  }
  __device__ void merge(int merges, Share& node) {
    for (; merges > 0; --merges) {
      --height;
#pragma unroll
      for (int i = 0; i < Share::kWords / kWide; ++i) {
        const std::uint32_t* const from = at(height, i);
        if constexpr (kWide == 4) {
          const uint4 v = *reinterpret_cast<const uint4*>(from);
          node.add_word(i * 4, v.x), node.add_word(i * 4 + 1, v.y);
          node.add_word(i * 4 + 2, v.z), node.add_word(i * 4 + 3, v.w);
        } else if constexpr (kWide == 2) {
          const uint2 v = *reinterpret_cast<const uint2*>(from);
          node.add_word(i * 2, v.x), node.add_word(i * 2 + 1, v.y);
        } else {
          node.add_word(i, *from);
        }
      }
    }
  }
};

}  // namespace samebits::engine::cuda::fma_leaf
