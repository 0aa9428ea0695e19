// What becomes of a tile's roots: stored as nodes, or fused into the activation or its gradient. A warpgroup
// holds 64 rows as wgmma lays accumulators out: a thread has, of every eight columns, two neighbours in two
// rows. Four lanes trade so that each stores sixteen bytes of one row.
#pragma once

#include <cstdint>

#include "engine/cuda/nodes.cuh"
#include "numerics/swiglu.hpp"

namespace samebits::engine::cuda {

// Two bf16 in one word. One instruction rounds both; it makes another NaN than ours.
__device__ inline std::uint32_t pack_pair(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  if (low != low || high != high) word = pack_bf16(low, high);
  return word;
}

// word[i] of lane t becomes word[t] of lane i, among the four lanes of a quad.
__device__ inline void trade_in_quad(std::uint32_t (&word)[4]) {
  const bool odd = (threadIdx.x & 1u) != 0, upper = (threadIdx.x & 2u) != 0;
  const auto swap = [](bool mine_is_first, std::uint32_t& first, std::uint32_t& second, int lanes) {
    const std::uint32_t got = __shfl_xor_sync(0xFFFFFFFFu, mine_is_first ? first : second, lanes);
    (mine_is_first ? first : second) = got;
  };
  swap(odd, word[0], word[1], 1);
  swap(odd, word[2], word[3], 1);
  swap(upper, word[0], word[2], 2);
  swap(upper, word[1], word[3], 2);
}

__device__ inline std::uint16_t half_of(std::uint32_t word, int which) {
  return static_cast<std::uint16_t>(which == 0 ? word : word >> 16);
}

// Eight neighbours of a row, `count` of them inside the matrix. `aligned`: at 16 bytes.
__device__ inline void store_eight(std::uint16_t* to, const std::uint32_t (&word)[4], int count,
                                   bool aligned) {
  if (aligned && count >= 8) {
    *reinterpret_cast<uint4*>(to) = make_uint4(word[0], word[1], word[2], word[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < count) to[i] = half_of(word[i / 2], i % 2);
  }
}
__device__ inline void load_eight(const std::uint16_t* from, std::uint32_t (&word)[4], int count,
                                  bool aligned) {
  if (aligned && count >= 8) {
    const uint4 four = __ldg(reinterpret_cast<const uint4*>(from));
    word[0] = four.x;
    word[1] = four.y;
    word[2] = four.z;
    word[3] = four.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) word[i] = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < count) word[i / 2] |= std::uint32_t{from[i]} << i % 2 * 16;
  }
}

// A bf16 matrix with packed rows.
struct Rows {
  std::uint16_t* data = nullptr;
  std::int64_t stride = 0;
  __device__ std::uint16_t* at(std::int64_t row, std::int64_t col) const { return data + row * stride + col; }
};

// Views that epilogues read and write: Rows keeps the address, and a launcher asks whether sixteen bytes can
// move at once.
inline Rows rows_of(const ConstView& view) {
  return {static_cast<std::uint16_t*>(const_cast<void*>(view.data)), view.row_stride};
}
inline bool has_aligned_rows(const ConstView& view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && view.row_stride % 8 == 0;
}

// body(row, first column, words of first, words of second) for a warpgroup's share of a tile: eight columns
// at a time, `kParts` values a column side by side in the accumulators (gate and up).
template <int kRegisters, int kParts, class Body>
__device__ void for_each_eight(const float (&acc)[kRegisters], const Body& body) {
  constexpr int kPart = kRegisters / kParts;  // registers of a part: half its columns
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int quad = 0; quad < kPart / 16; ++quad) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t word[kParts][4];
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = part * kPart + (quad * 4 + i) * 4 + half * 2;
          word[part][i] = pack_pair(acc[at], acc[at + 1]);
        }
        trade_in_quad(word[part]);
      }
      body(warp * 16 + lane / 4 + half * 8, (quad * 4 + lane % 4) * 8, word);
    }
  }
}

// Where a block's share of the result begins, and how far the result goes.
struct TilePlace {
  std::int64_t row, col;
  std::int64_t rows, cols;
  __device__ int columns_left(int col_in_tile) const {
    const std::int64_t left = cols - col - col_in_tile;
    return left < 8 ? static_cast<int>(left) : 8;
  }
};

// Nodes as they are.
struct StoreEpilogue {
  static constexpr int kParts = 1;
  Target target;
  bool aligned = false;

  template <int kRegisters>
  __device__ void store(const float (&acc)[kRegisters], const TilePlace& place, int node) const {
    if (target.f32) return store_f32(acc, place, node);
    for_each_eight<kRegisters, 1>(acc, [&](int row, int col, const std::uint32_t(&word)[1][4]) {
      if (place.row + row >= place.rows || place.columns_left(col) <= 0) return;
      std::uint16_t* const to = static_cast<std::uint16_t*>(target.data) +
                                (place.row + row) * target.row_stride + node * target.node_stride +
                                place.col + col;
      store_eight(to, word[0], place.columns_left(col), aligned);
    });
  }

 private:
  template <int kRegisters>
  __device__ void store_f32(const float (&acc)[kRegisters], const TilePlace& place, int node) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
    for (int i = 0; i < kRegisters; i += 2) {
      const std::int64_t row = place.row + warp * 16 + lane / 4 + i / 2 % 2 * 8,
                         col = place.col + i / 4 * 8 + lane % 4 * 2;
      if (row >= place.rows || col >= place.cols) continue;
      float* const to =
          static_cast<float*>(target.data) + row * target.row_stride + node * target.node_stride + col;
      const float low = numerics::canonical_f32(acc[i]), high = numerics::canonical_f32(acc[i + 1]);
      if (aligned && col + 1 < place.cols) {
        *reinterpret_cast<float2*>(to) = make_float2(low, high);
      } else {
        to[0] = low;
        if (col + 1 < place.cols) to[1] = high;
      }
    }
  }
};

// G, U and A from the two parts of a tile.
struct ActivateEpilogue {
  static constexpr int kParts = 2;
  Rows gate, up, act;
  const float* sigma = nullptr;
  Swiglu kind = Swiglu::one;
  bool keep = true;  // G and U are wanted
  bool aligned = false;

  template <int kRegisters>
  __device__ void store(const float (&acc)[kRegisters], const TilePlace& place, int) const {
    for_each_eight<kRegisters, 2>(acc, [&](int row, int col, const std::uint32_t(&word)[2][4]) {
      const int count = place.columns_left(col);
      if (place.row + row >= place.rows || count <= 0) return;
      std::uint32_t out[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint16_t low = half_of(word[0][i], 0), high = half_of(word[0][i], 1);
        out[i] = std::uint32_t{numerics::swiglu(kind, low, half_of(word[1][i], 0), __ldg(sigma + low))} |
                 std::uint32_t{numerics::swiglu(kind, high, half_of(word[1][i], 1), __ldg(sigma + high))}
                     << 16;
      }
      store_eight(act.at(place.row + row, place.col + col), out, count, aligned);
      if (!keep) return;
      store_eight(gate.at(place.row + row, place.col + col), word[0], count, aligned);
      store_eight(up.at(place.row + row, place.col + col), word[1], count, aligned);
    });
  }
};

// dG and dU from dA, G and U.
struct GradientEpilogue {
  static constexpr int kParts = 1;
  Rows gate, up, d_gate, d_up;
  const float* sigma = nullptr;
  Swiglu kind = Swiglu::one;
  bool aligned = false;

  template <int kRegisters>
  __device__ void store(const float (&acc)[kRegisters], const TilePlace& place, int) const {
    for_each_eight<kRegisters, 1>(acc, [&](int row, int col, const std::uint32_t(&word)[1][4]) {
      const int count = place.columns_left(col);
      if (place.row + row >= place.rows || count <= 0) return;
      const std::int64_t r = place.row + row, c = place.col + col;
      std::uint32_t g[4], u[4], dg[4], du[4];
      load_eight(gate.at(r, c), g, count, aligned);
      load_eight(up.at(r, c), u, count, aligned);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        numerics::SwigluGradient d[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const std::uint16_t gh = half_of(g[i], h);
          d[h] = numerics::swiglu_gradient(kind, half_of(word[0][i], h), gh, half_of(u[i], h),
                                           __ldg(sigma + gh));
        }
        dg[i] = std::uint32_t{d[0].gate} | std::uint32_t{d[1].gate} << 16;
        du[i] = std::uint32_t{d[0].up} | std::uint32_t{d[1].up} << 16;
      }
      store_eight(d_gate.at(r, c), dg, count, aligned);
      store_eight(d_up.at(r, c), du, count, aligned);
    });
  }
};

}  // namespace samebits::engine::cuda
