// How a warpgroup's accumulators become elements: the places of a thread's values, packed pairs, and boxes of
// results in shared memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "engine/cuda/hopper.cuh"
#include "engine/cuda/sm90/tiles_ring.cuh"
#include "numerics/bf16.hpp"
#include "samebits/view.hpp"

namespace samebits::engine::cuda {

// Two bf16 in one word; one instruction rounds both. Its NaN is 0x7FFF, which canonical_word mends.
__device__ inline std::uint32_t pack_pair(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ inline std::uint16_t half_of(std::uint32_t word, int which) {
  return static_cast<std::uint16_t>(which == 0 ? word : word >> 16);
}
__device__ inline float widened(std::uint32_t word, int which) {
  return numerics::from_bits(which == 0 ? word << 16 : word & 0xFFFF0000u);
}
__device__ inline std::uint32_t canonical_word(std::uint32_t word) {
  const auto canonical = [](std::uint16_t x) {
    return std::uint32_t{(x & 0x7FFF) > 0x7F80 ? numerics::kNanBf16 : x};
  };
  return canonical(half_of(word, 0)) | canonical(half_of(word, 1)) << 16;
}

// Whether a NaN was among words: times zero and added up, it stays. An infinity counts as one too, which does
// no harm.
struct NanWatch {
  std::uint32_t sum = 0;
  __device__ void see(std::uint32_t word) {
    asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(word), "r"(0));
  }
  __device__ bool seen() const { return (sum & 0x7FFF7FFFu) != 0; }
};

// A thread's two rows of a box, as the copy engine's swizzle has them. Pair i of the kColumns / 4: columns
// 8 (i / 2) + 2 (lane % 4) and the next, of the lower row if i is odd.
template <int kColumns>
struct BoxRows {
  static constexpr int kPairs = kColumns / 4;
  static constexpr std::uint32_t kRowBytes = kColumns * 2;
  std::uint32_t begin, turn;

  __device__ explicit BoxRows(const unsigned char* rows) {
    const std::uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    begin = shared_address(rows) + (warp * 16 + lane / 4) * kRowBytes + lane % 4 * 4;
    // Sixteen bytes move by the row: by one in eight rows of 128 bytes, by one in four pairs of 64.
    turn = (kColumns == 64 ? lane / 4 : lane / 8) * 16;
  }
  __device__ std::uint32_t at(int pair) const {
    return begin + ((static_cast<std::uint32_t>(pair / 2) * 16) ^ turn) +
           static_cast<std::uint32_t>(pair % 2) * 8 * kRowBytes;
  }
  __device__ void put(int pair, std::uint32_t word) const {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at(pair)), "r"(word) : "memory");
  }
  __device__ std::uint32_t get(int pair) const {
    std::uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at(pair)) : "memory");
    return word;
  }
  __device__ void mend() const {
#pragma unroll 1
    for (int pair = 0; pair < kPairs; ++pair) put(pair, canonical_word(get(pair)));
  }
};

// Where a warpgroup's share of the result begins, and how far the result goes.
struct TilePlace {
  std::int64_t row, col;
  std::int64_t rows, cols;

  // 64 rows of a box that lies `ahead` columns further.
  __device__ void send(const CUtensorMap* map, int ahead, const void* from) const {
    if (row >= rows || col + ahead >= cols) return;
    store_tile(map, static_cast<int>(col) + ahead, static_cast<int>(row), from);
  }
};

// acc[kBegin, kEnd) moves down by kCount.
template <int kCount, int kBegin, int kEnd, int kRegisters>
__device__ void move_down(float (&acc)[kRegisters]) {
#pragma unroll
  for (int i = kBegin; i + kCount < kEnd; ++i) acc[i] = acc[i + kCount];
}

// A loop over accumulators needs them in local memory.
template <int kRegisters>
struct Copied {
  float value[kRegisters];
  __device__ explicit Copied(const float (&acc)[kRegisters]) {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) value[i] = acc[i];
  }
};

// body(i, row, col) for the places of accumulators 0 .. count that lie inside.
template <class Body>
__device__ void for_each_place(int count, const TilePlace& place, const Body& body) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const std::int64_t row = place.row + warp * 16 + lane / 4 + i / 2 % 2 * 8,
                       col = place.col + i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (row < place.rows && col < place.cols) body(i, row, col);
  }
}

// A bf16 matrix with packed rows.
struct Rows {
  std::uint16_t* data = nullptr;
  std::int64_t stride = 0;
  __device__ std::uint16_t& at(std::int64_t row, std::int64_t col) const { return data[row * stride + col]; }
};
inline Rows rows_of(const ConstView& view) {
  return {static_cast<std::uint16_t*>(const_cast<void*>(view.data)), view.row_stride};
}

}  // namespace samebits::engine::cuda
