// What becomes of a tile's roots: stored as nodes, or fused into the activation or its gradient. A warpgroup
// holds 64 rows as wgmma lays accumulators out: a thread has, of every eight columns, two neighbours in two
// rows. Four lanes trade so that each stores sixteen bytes of one row.
#pragma once

#include <cstdint>

#include "engine/cuda/nodes.cuh"
#include "engine/cuda/sigma_cache.cuh"
#include "numerics/swiglu.hpp"

namespace samebits::engine::cuda {

// Two bf16 in one word; one instruction rounds both. It makes another NaN than ours, which canonical_words
// mends.
__device__ inline std::uint32_t pack_pair(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

__device__ inline std::uint16_t half_of(std::uint32_t word, int which) {
  return static_cast<std::uint16_t>(which == 0 ? word : word >> 16);
}

__device__ inline std::uint32_t canonical_word(std::uint32_t word) {
  const auto canonical = [](std::uint16_t x) {
    return std::uint32_t{(x & 0x7FFF) > 0x7F80 ? numerics::kNanBf16 : x};
  };
  return canonical(half_of(word, 0)) | canonical(half_of(word, 1)) << 16;
}

// Edges of the matrix, odd placements and NaN take a loop over a copy in local memory: written out like the
// plain path, they would take its registers.
template <int kRegisters>
struct Copied {
  float value[kRegisters];
  __device__ explicit Copied(const float (&acc)[kRegisters]) {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) value[i] = acc[i];
  }
};

// Whether any value of the warp is a NaN.
template <int kRegisters>
__device__ bool warp_has_nan(const float (&acc)[kRegisters]) {
  bool nan = false;
#pragma unroll
  for (const float value : acc) nan = nan || value != value;
  return __any_sync(0xFFFFFFFFu, nan) != 0;
}

// word[i] of lane t becomes word[t] of lane i, among the four lanes of a quad.
__device__ inline void trade_in_quad(std::uint32_t (&word)[4]) {
  const bool odd = (threadIdx.x & 1u) != 0, upper = (threadIdx.x & 2u) != 0;
  const auto swap = [](bool mine_is_first, std::uint32_t& first, std::uint32_t& second, int lanes) {
    const std::uint32_t got = __shfl_xor_sync(0xFFFFFFFFu, mine_is_first ? first : second, lanes);
    first = mine_is_first ? got : first;
    second = mine_is_first ? second : got;
  };
  swap(odd, word[0], word[1], 1);
  swap(odd, word[2], word[3], 1);
  swap(upper, word[0], word[2], 2);
  swap(upper, word[1], word[3], 2);
}

// Where a warpgroup's share of the result begins, and how far the result goes.
struct TilePlace {
  std::int64_t row, col;
  std::int64_t rows, cols;
  __device__ bool is_whole(int width) const { return row + 64 <= rows && col + width <= cols; }
};

// A thread's two rows of a bf16 matrix, from its first column in the tile on. Eight columns are 16 bytes;
// where they are not aligned, or not all inside, they move one by one.
struct ThreadRows {
  std::uint16_t* row[2];
  int inside[2];  // columns from row[] on; none in a row below the last
  bool vectors;   // of the whole tile

  __device__ ThreadRows(std::uint16_t* data, std::int64_t stride, const TilePlace& place, int width,
                        bool aligned) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const std::int64_t col = place.col + lane % 4 * 8;
    vectors = aligned && place.is_whole(width);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t at = place.row + warp * 16 + lane / 4 + half * 8;
      row[half] = data + at * stride + col;
      const std::int64_t left = at < place.rows ? place.cols - col : 0;
      inside[half] = static_cast<int>(left < 0 ? 0 : left < width ? left : width);
    }
  }
  // Columns 32 quad .. + 8 of a row.
  template <bool kVectors>
  __device__ void store(int half, int quad, const std::uint32_t (&word)[4]) const {
    std::uint16_t* const to = row[half] + quad * 32;
    if constexpr (kVectors) {
      *reinterpret_cast<uint4*>(to) = make_uint4(word[0], word[1], word[2], word[3]);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (quad * 32 + i < inside[half]) to[i] = half_of(word[i / 2], i % 2);
      }
    }
  }
  template <bool kVectors>
  __device__ void load(int half, int quad, std::uint32_t (&word)[4]) const {
    const std::uint16_t* const from = row[half] + quad * 32;
    if constexpr (kVectors) {  // where it is written: moved further ahead, it would hold registers that are
                               // not there
      asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                   : "l"(from)
                   : "memory");
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) word[i] = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (quad * 32 + i < inside[half]) word[i / 2] |= std::uint32_t{from[i]} << i % 2 * 16;
      }
    }
  }
};

// A bf16 matrix with packed rows.
struct Rows {
  std::uint16_t* data = nullptr;
  std::int64_t stride = 0;
  __device__ ThreadRows of(const TilePlace& place, int width, bool aligned) const {
    return {data, stride, place, width, aligned};
  }
};
inline Rows rows_of(const ConstView& view) {
  return {static_cast<std::uint16_t*>(const_cast<void*>(view.data)), view.row_stride};
}
inline bool has_aligned_rows(const ConstView& view) {
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && view.row_stride % 8 == 0;
}

// The eight columns 32 quad + 8 (lane % 4) .. of one of the thread's rows, rounded: those of part `part` of a
// tile whose parts (gate and up) lie side by side.
template <int kParts, bool kNan, int kRegisters>
__device__ void eight_of(const float (&acc)[kRegisters], int part, int quad, int half,
                         std::uint32_t (&word)[4]) {
  constexpr int kPart = kRegisters / kParts;  // registers: half its columns
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = part * kPart + (quad * 4 + i) * 4 + half * 2;
    word[i] = pack_pair(acc[at], acc[at + 1]);
    if (kNan) word[i] = canonical_word(word[i]);
  }
  trade_in_quad(word);
}

// Nodes as they are.
struct StoreEpilogue {
  static constexpr int kParts = 1;
  static constexpr bool kSigma = false;
  Target target;
  bool aligned = false;

  template <int kRegisters>
  __device__ void store(const float (&acc)[kRegisters], const TilePlace& place, int node,
                        const SigmaCache&) const {
    if (target.f32) return store_f32(acc, place, node);
    auto* const data = static_cast<std::uint16_t*>(target.data) + node * target.node_stride;
    const ThreadRows to(data, target.row_stride, place, kRegisters * 2, aligned);
    if (to.vectors && !warp_has_nan(acc)) {
      store_bf16<true>(acc, to);
    } else {
      store_bf16<false>(Copied(acc).value, to);
    }
  }

 private:
  // `kPlain`: a whole tile without a NaN, which nothing branches for.
  template <bool kPlain, int kRegisters>
  __device__ static void store_bf16(const float (&acc)[kRegisters], const ThreadRows& to) {
#pragma unroll(kPlain ? kRegisters / 16 : 1)
    for (int quad = 0; quad < kRegisters / 16; ++quad) {
#pragma unroll(kPlain ? 2 : 1)
      for (int half = 0; half < 2; ++half) {
        std::uint32_t word[4];
        eight_of<1, !kPlain>(acc, 0, quad, half, word);
        to.store<kPlain>(half, quad, word);
      }
    }
  }

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
template <Swiglu kKind>
struct ActivateEpilogue {
  static constexpr int kParts = 2;
  static constexpr bool kSigma = true;
  Rows gate, up, act;
  const float* sigma = nullptr;
  bool keep = true;  // G and U are wanted
  bool aligned = false;

  template <int kRegisters>
  __device__ void store(const float (&acc)[kRegisters], const TilePlace& place, int,
                        const SigmaCache& cache) const {
    const ThreadRows to_act = act.of(place, kRegisters, aligned),
                     to_gate = gate.of(place, kRegisters, aligned), to_up = up.of(place, kRegisters, aligned);
    const bool plain = to_act.vectors && !warp_has_nan(acc);
    if (plain) {
      store_as<true>(acc, to_gate, to_up, to_act, cache);
    } else {
      store_as<false>(Copied(acc).value, to_gate, to_up, to_act, cache);
    }
  }

 private:
  template <bool kPlain, int kRegisters>
  __device__ void store_as(const float (&acc)[kRegisters], const ThreadRows& to_gate, const ThreadRows& to_up,
                           const ThreadRows& to_act, const SigmaCache& cache) const {
#pragma unroll(kPlain ? kRegisters / 32 : 1)
    for (int quad = 0; quad < kRegisters / 32; ++quad) {
#pragma unroll(kPlain ? 2 : 1)
      for (int half = 0; half < 2; ++half) {
        std::uint32_t g[4], u[4], a[4];
        eight_of<2, !kPlain>(acc, 0, quad, half, g);
        eight_of<2, !kPlain>(acc, 1, quad, half, u);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const std::uint16_t low = half_of(g[i], 0), high = half_of(g[i], 1);
          a[i] = std::uint32_t{numerics::swiglu(kKind, low, half_of(u[i], 0), cache.of(low))} |
                 std::uint32_t{numerics::swiglu(kKind, high, half_of(u[i], 1), cache.of(high))} << 16;
        }
        to_act.store<kPlain>(half, quad, a);
        if (!keep) continue;
        to_gate.store<kPlain>(half, quad, g);
        to_up.store<kPlain>(half, quad, u);
      }
    }
  }
};

// dG and dU from dA, G and U. G and U of the next columns are on their way while these are worked on.
template <Swiglu kKind>
struct GradientEpilogue {
  static constexpr int kParts = 1;
  static constexpr bool kSigma = true;
  Rows gate, up, d_gate, d_up;
  const float* sigma = nullptr;
  bool aligned = false;

  template <int kRegisters>
  __device__ void store(const float (&acc)[kRegisters], const TilePlace& place, int,
                        const SigmaCache& cache) const {
    constexpr int kWidth = kRegisters * 2;
    const Places places{gate.of(place, kWidth, aligned), up.of(place, kWidth, aligned),
                        d_gate.of(place, kWidth, aligned), d_up.of(place, kWidth, aligned)};
    const bool plain = places.gate.vectors && !warp_has_nan(acc);
    if (plain) {
      store_as<true>(acc, places, cache);
    } else {
      store_as<false>(Copied(acc).value, places, cache);
    }
  }

 private:
  struct Places {
    ThreadRows gate, up, d_gate, d_up;
  };

  template <bool kPlain, int kRegisters>
  __device__ void store_as(const float (&acc)[kRegisters], const Places& places,
                           const SigmaCache& cache) const {
    constexpr int kPieces = kRegisters / 8, kAhead = kPlain ? 2 : 0;  // quads and halves
    std::uint32_t g[kAhead + 1][4], u[kAhead + 1][4];
    const auto fetch = [&](int piece) {
      places.gate.template load<kPlain>(piece % 2, piece / 2, g[piece % (kAhead + 1)]);
      places.up.template load<kPlain>(piece % 2, piece / 2, u[piece % (kAhead + 1)]);
    };
#pragma unroll
    for (int piece = 0; piece < kAhead; ++piece) fetch(piece);
#pragma unroll(kPlain ? kPieces : 1)
    for (int piece = 0; piece < kPieces; ++piece) {
      asm volatile("" ::: "memory");
      if (piece + kAhead < kPieces) fetch(piece + kAhead);
      const int slot = piece % (kAhead + 1);
      std::uint32_t d[4], dg[4], du[4];
      eight_of<1, !kPlain>(acc, 0, piece / 2, piece % 2, d);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        numerics::SwigluGradient both[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const std::uint16_t gh = half_of(g[slot][i], h);
          both[h] =
              numerics::swiglu_gradient(kKind, half_of(d[i], h), gh, half_of(u[slot][i], h), cache.of(gh));
        }
        dg[i] = std::uint32_t{both[0].gate} | std::uint32_t{both[1].gate} << 16;
        du[i] = std::uint32_t{both[0].up} | std::uint32_t{both[1].up} << 16;
      }
      places.d_gate.template store<kPlain>(piece % 2, piece / 2, dg);
      places.d_up.template store<kPlain>(piece % 2, piece / 2, du);
    }
  }
};

}  // namespace samebits::engine::cuda
