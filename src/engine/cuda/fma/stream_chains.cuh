// What a thread of the stream kernels holds: its chains over a chunk of k, and its pending nodes.
#pragma once

#include "engine/cuda/fma/stream_ring.cuh"
#include "engine/cuda/fma/words.cuh"

namespace samebits::engine::cuda::fma_leaf {

// A thread's chains over one chunk of k. Operands are read ahead of their use: x of kAhead k, weights of a
// group of 8 by rows and of kAhead k by columns.
template <int kTokens, int kRows, bool kColumns>
struct StreamChains {
  static constexpr int kAhead = kTokens >= 16 ? 2 : kTokens >= 4 ? 4 : 8;
  static constexpr int kCount = kTokens * kRows;
  static constexpr int kBlock = kTokens < 4 ? kTokens : 4;  // tokens of one read
  static constexpr int kPitch = stream_x_pitch(kTokens);
  static constexpr bool kFourK = kTokens == 1 && !kColumns;  // x of four k in one word

  float acc[kCount];  // [row][token]
  float x[kAhead][kTokens];
  uint2 column[kColumns ? kAhead : 1];  // weights of a k
  uint4 row[kColumns ? 1 : kRows];      // weights of the 8 k of a group
  float first[kRows];                   // by rows: those of the group's first k, widened

  // Addresses in shared memory.
  std::uint32_t weights;  // by columns: of this thread's first row; by rows: of its group 0, swizzled
  std::uint32_t xs;       // of this thread's first token
  std::uint32_t x_here;   // xs of the group in hand
  int tile_bytes;         // of a k of the weights by columns
  int row_bytes;          // between this thread's rows

  __device__ void reset() {
#pragma unroll
    for (float& value : acc) value = 0.0f;
  }
  __device__ static void read_block(float (&to)[kTokens], std::uint32_t from, int block) {
    if constexpr (kTokens == 1) {
      to[0] = read_one(from);
    } else {
      float* const t = to + 4 * block;
      read_four(t[0], t[1], t[2], t[3], from + static_cast<std::uint32_t>(16 * block));
    }
  }
  __device__ static void read_x(float (&to)[kTokens], std::uint32_t from) {
#pragma unroll
    for (int block = 0; block < kTokens / kBlock; ++block) read_block(to, from, block);
  }
  // By columns: this thread's kRows (2 or 4) neighbours at one k.
  __device__ static uint2 read_columns(std::uint32_t from) {
    if constexpr (kRows == 4) return read_two(from);
    return {__float_as_uint(read_one(from)), 0};
  }
  // By rows: of this thread's row 0, the 8 k of group `k / 8`.
  __device__ std::uint32_t group_at(int k) const { return weights ^ static_cast<std::uint32_t>(k) << 1; }
  __device__ std::uint32_t x_at(int k) const { return xs + static_cast<std::uint32_t>(k * kPitch * 4); }
  __device__ std::uint32_t column_at(int k) const {
    return weights + static_cast<std::uint32_t>(k * tile_bytes);
  }
  __device__ uint4 read_row(std::uint32_t group, int r) const {
    return read_words(group + static_cast<std::uint32_t>(r * row_bytes));
  }
  // The weights of one k, from those of `column` or of `row`.
  __device__ void widen(float (&w)[kRows], int j) const {
    if constexpr (kColumns) {
      const uint2 v = column[j % kAhead];
      w[0] = low_of(v.x), w[1] = high_of(v.x);
      if constexpr (kRows == 4) w[2] = low_of(v.y), w[3] = high_of(v.y);
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const uint4& v = row[r];
        const std::uint32_t word = j < 2 ? v.x : j < 4 ? v.y : j < 6 ? v.z : v.w;
        w[r] = j % 2 == 0 ? low_of(word) : high_of(word);
      }
    }
  }

  // Block `block` of the tokens, all rows. There and back: each product shares an operand with the one
  // before.
  __device__ void multiply(const float (&w)[kRows], const float (&v)[kTokens], int block) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int r = block % 2 == 0 ? i : kRows - 1 - i;
#pragma unroll
      for (int j = 0; j < kBlock; ++j) {
        const int t = block * kBlock + (i % 2 == 0 ? j : kBlock - 1 - j);
        fma_here(acc[r * kTokens + t], w[r], v[t]);
      }
    }
  }

  // Before the first group of a run.
  __device__ void prime(int k) {
    x_here = x_at(k);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) read_x(x[i], x_at(k + i));
    if constexpr (kColumns) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) column[i] = read_columns(column_at(k + i));
    } else {
      const std::uint32_t from = group_at(k);
#pragma unroll
      for (int r = 0; r < kRows; ++r) row[r] = read_row(from, r);
      widen(first, 0);
    }
  }

  // 8 k. It reads ahead of the next group; of the chunk's first one, and in vain, when it is the last. By
  // rows, the next group's first weights are widened here too: so the compiler reads them early enough, where
  // it would else read them last and wait for them first.
  __device__ void group(int k) {
    const int after = (k + 8) & (kStreamChunk - 1);
    const std::uint32_t next = kColumns ? column_at(after) : group_at(after), x_next = x_at(after);
    std::uint32_t ahead_at = column_at(k + kAhead);  // the column to be read, unless kAhead is a group
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float w[kRows];
      widen(w, j);
      if (!kColumns && j == 0) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) w[r] = first[r];
      }
      if constexpr (kColumns) {
        if (j + kAhead == 8) ahead_at = next;
        column[j % kAhead] = read_columns(ahead_at);
        ahead_at += static_cast<std::uint32_t>(tile_bytes);
      } else if (j == 7) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) row[r] = read_row(next, r);
      }
      const std::uint32_t ahead =
          (j + kAhead < 8 ? x_here : x_next) + static_cast<std::uint32_t>((j + kAhead) % 8 * kPitch * 4);
#pragma unroll
      for (int block = 0; block < kTokens / kBlock; ++block) {
        multiply(w, x[j % kAhead], block);
        if constexpr (!kFourK) read_block(x[j % kAhead], ahead, block);
      }
      if constexpr (kFourK) {
        if (j % 4 != 3) continue;
        read_four(x[j - 3][0], x[j - 2][0], x[j - 1][0], x[j][0],
                  x_next + static_cast<std::uint32_t>((j - 3) * 4));
      }
    }
    if constexpr (!kColumns) widen(first, 0);
    x_here += 8 * kPitch * 4;
  }

  // One k, where a leaf ends inside a group.
  __device__ void single(int k) {
    float w[kRows], v[kTokens];
    read_x(v, x_at(k));
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      w[r] = read_bf16(kColumns ? column_at(k) + static_cast<std::uint32_t>(r * 2)
                                : group_at(k & ~7) + static_cast<std::uint32_t>(r * row_bytes + (k & 7) * 2));
    }
#pragma unroll
    for (int block = 0; block < kTokens / kBlock; ++block) multiply(w, v, block);
  }
};

// Pending nodes of a thread in shared memory, in words as wide as they allow.
template <int kCount, bool kBf16>
struct StreamStack {
  using Share = NodeShare<kCount, kBf16>;
  static constexpr int kWide = Share::kWords % 4 == 0 ? 4 : Share::kWords % 2 == 0 ? 2 : 1;

  static constexpr int kParts = Share::kWords / kWide;

  std::uint32_t top;  // address in shared memory: of this thread's part 0 of the level after the last
  int part_bytes;     // kWide words of every thread
  int level_bytes;

  __device__ void push(const Share& node) {
    std::uint32_t to = top;
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      const std::uint32_t* const from = node.word + i * kWide;
      if constexpr (kWide == 4) {
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(from[0]), "r"(from[1]),
                     "r"(from[2]), "r"(from[3])
                     : "memory");
      } else if constexpr (kWide == 2) {
        asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(from[0]), "r"(from[1]) : "memory");
      } else {
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(from[0]) : "memory");
      }
      to += static_cast<std::uint32_t>(part_bytes);
    }
    top += static_cast<std::uint32_t>(level_bytes);
  }
  __device__ void merge(int merges, Share& node) {
#pragma unroll 1
    for (; merges > 0; --merges) {
      top -= static_cast<std::uint32_t>(level_bytes);
      std::uint32_t from = top;
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        if constexpr (kWide == 4) {
          float v[4];
          read_four(v[0], v[1], v[2], v[3], from);
#pragma unroll
          for (int j = 0; j < 4; ++j) node.add_word(i * 4 + j, __float_as_uint(v[j]));
        } else if constexpr (kWide == 2) {
          const uint2 v = read_two(from);
          node.add_word(i * 2, v.x), node.add_word(i * 2 + 1, v.y);
        } else {
          node.add_word(i, __float_as_uint(read_one(from)));
        }
        from += static_cast<std::uint32_t>(part_bytes);
      }
    }
  }
};

}  // namespace samebits::engine::cuda::fma_leaf
