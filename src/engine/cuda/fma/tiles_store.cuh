// How a finished tile gets to its target.
#pragma once

#include "engine/cuda/fma/tiles_chains.cuh"
#include "engine/cuda/nodes.cuh"

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {

// Four neighbouring columns: `word` as it lies in a node, two or four of them used.
template <bool kBf16>
__device__ inline void store_four(const Target& target, std::int64_t at, const std::uint32_t (&word)[4]) {
  float value[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    value[i] = !kBf16 ? __uint_as_float(word[i]) : i % 2 == 0 ? low_of(word[i / 2]) : high_of(word[i / 2]);
  }
  if (target.f32) {
    *reinterpret_cast<float4*>(static_cast<float*>(target.data) + at) = {
        numerics::canonical_f32(value[0]), numerics::canonical_f32(value[1]),
        numerics::canonical_f32(value[2]), numerics::canonical_f32(value[3])};
  } else {
    *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(target.data) + at) = {
        canonical_two(kBf16 ? word[0] : round_two(value[0], value[1])),
        canonical_two(kBf16 ? word[1] : round_two(value[2], value[3]))};
  }
}

// The node just pushed goes to the target. It is read back a part at a time, because unrolled over a thread's
// whole share the addresses alone would fill the registers.
template <bool kBf16>
__device__ inline void store_tile(const Target& target, const uint4* parts, int index, std::int64_t row0,
                                  std::int64_t col0, std::int64_t rows, std::int64_t cols) {
  constexpr int kValues = kBf16 ? 8 : 4;  // of a part
  const std::int64_t origin = index * target.node_stride;
  const auto mask = static_cast<std::uintptr_t>(target.f32 ? 15 : 7);
  const bool wide = target.col_stride == 1 && (target.row_stride & 3) == 0 && (origin & 3) == 0 &&
                    (reinterpret_cast<std::uintptr_t>(target.data) & mask) == 0;
#pragma unroll 2
  for (int part = 0; part < kTilesShare / kValues; ++part) {
    const uint4 v = parts[part * kTilesThreads];
    const std::int64_t row = row0 + tile_row(part * kValues);
#pragma unroll
    for (int half = 0; half < kValues / 4; ++half) {
      const std::uint32_t word[4] = {half == 0 ? v.x : v.z, half == 0 ? v.y : v.w, v.z, v.w};
      const std::int64_t col = col0 + tile_col(part * kValues + 4 * half);
      if (row >= rows || col >= cols) continue;
      const std::int64_t at = origin + row * target.row_stride + col * target.col_stride;
      if (wide && col + 4 <= cols) {
        store_four<kBf16>(target, at, word);
        continue;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float value = !kBf16       ? __uint_as_float(word[j])
                            : j % 2 == 0 ? low_of(word[j / 2])
                                         : high_of(word[j / 2]);
        if (col + j < cols) store_node(target, at + j * target.col_stride, value);
      }
    }
  }
}

// A tile inside the target, whose rows take 8 bytes at a time: straight from the registers. Served or not.
template <bool kBf16>
__device__ inline bool store_whole(const Target& target, const NodeShare<kTilesShare, kBf16>& node, int index,
                                   std::int64_t row0, std::int64_t col0, std::int64_t rows,
                                   std::int64_t cols) {
  const std::int64_t origin = index * target.node_stride;
  if (target.f32 || target.col_stride != 1 || ((target.row_stride | origin) & 3) != 0 ||
      (reinterpret_cast<std::uintptr_t>(target.data) & 7) != 0 || row0 + kTileSide > rows ||
      col0 + kTileSide > cols) {
    return false;
  }
  std::uint32_t word[kTilesShare / 2], most = 0;
#pragma unroll
  for (int i = 0; i < kTilesShare / 2; ++i) {
    word[i] = kBf16 ? node.word[i]
                    : round_two(__uint_as_float(node.word[kBf16 ? 0 : 2 * i]),
                                __uint_as_float(node.word[kBf16 ? 0 : 2 * i + 1]));
    most = most_of_halves(most, word[i] & 0x7FFF7FFFu);
  }
  if ((most & 0xFFFFu) > 0x7F80u || most >> 16 > 0x7F80u) {  // a NaN
#pragma unroll
    for (std::uint32_t& two : word) two = canonical_two(two);
  }
  auto* const to = static_cast<std::uint16_t*>(target.data) + origin +
                   (row0 + tile_row(0)) * target.row_stride + col0 + tile_col(0);
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    std::uint16_t* const line = to + (r / 4 * 64 + r % 4) * target.row_stride;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      *reinterpret_cast<uint2*>(line + 32 * c) = {word[8 * r + 2 * c], word[8 * r + 2 * c + 1]};
    }
  }
  return true;
}

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
