// Chunks of an operand of the tile kernels: copied to shared memory as they are, and widened from there.
#pragma once

#include "engine/cuda/fma/tiles.hpp"
#include "engine/cuda/fma/words.cuh"

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {

using numerics::Bf16;

inline constexpr int kTilesChunk = 16;     // k of a buffer
inline constexpr int kTilesThreads = 128;  // 16 x 8, each 8 rows x 16 columns
inline constexpr int kTilesLoaders = 64;   // threads that load one operand

// One chunk of an operand, [16 k][128 outer], a quarter kilobyte a thread of 64.
//   by rows:    8 k of 4 neighbouring rows; warps alternate between the halves of the chunk
//   by columns: 8 neighbouring columns of 4 k
// A thread widens what it copied itself, so that nobody waits for others' copies; 16 registers a thread,
// which the chains need, are not spent on a chunk under way.
struct TileLoad {
  uint4* raw;  // of this thread: part i at i * kTilesThreads; where chunks are staged in shared memory
  uint4 held[kStagesInShared ? 1 : 4];  // and in registers where not
  const Bf16* from;                     // of part 0, at the chunk in hand
  std::int64_t stride;                  // between parts, in elements
  int valid;                            // parts within the matrix (rows), or elements of a part (columns)
  int k;                                // of part 0
  const Bf16* anywhere;                 // within the matrix

  template <bool kColumns>
  __device__ void begin(const Operand& operand, std::int64_t outer0, int thread) {
    const std::int64_t at = kColumns ? outer0 + thread % 16 * 8 : outer0 + thread % 32 * 4;
    const std::int64_t rest = operand.outer - at;
    anywhere = operand.data;
    valid = static_cast<int>(rest < 0 ? 0 : rest > 8 ? 8 : rest);
    k = kColumns ? thread / 16 : thread / 32 * 8;
    stride = kColumns ? 4 * operand.k_stride : operand.outer_stride;
    from = operand.data + (kColumns ? k * operand.k_stride + at : at * operand.outer_stride + k);
  }

  // The chunk in hand, of an axis that ends at `end`; then the next one is. What lies outside arrives as +0.
  template <bool kColumns>
  __device__ void fetch(int end) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int elements = kColumns ? (k + 4 * i < end ? valid : 0) : i < valid ? min(max(end - k, 0), 8) : 0;
      // No address outside the matrix, even of no bytes.
      const Bf16* const source = elements > 0 ? from + i * stride : anywhere;
      stage_16(raw + i * kTilesThreads, held[kStagesInShared ? 0 : i], source, elements);
    }
    commit_copies();
    k += kTilesChunk;
    from += kColumns ? 4 * stride : kTilesChunk;
  }
  template <bool kColumns>
  __device__ void place(float (&to)[kTilesChunk][kTileSide], int thread) const {
    wait_copies();
    uint4 part[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      part[i] = kStagesInShared ? raw[i * kTilesThreads] : held[kStagesInShared ? 0 : i];
    if constexpr (kColumns) {
      float* const at = &to[thread / 16][thread % 16 * 8];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint4& v = part[i];
        float* const row = at + 4 * i * kTileSide;
        *reinterpret_cast<float4*>(row) = {low_of(v.x), high_of(v.x), low_of(v.y), high_of(v.y)};
        *reinterpret_cast<float4*>(row + 4) = {low_of(v.z), high_of(v.z), low_of(v.w), high_of(v.w)};
      }
    } else {
      float* const at = &to[thread / 32 * 8][thread % 32 * 4];
      const auto pair = [&](int k, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
        *reinterpret_cast<float4*>(at + k * kTileSide) = {low_of(a), low_of(b), low_of(c), low_of(d)};
        *reinterpret_cast<float4*>(at + (k + 1) * kTileSide) = {high_of(a), high_of(b), high_of(c),
                                                                high_of(d)};
      };
      pair(0, part[0].x, part[1].x, part[2].x, part[3].x);
      pair(2, part[0].y, part[1].y, part[2].y, part[3].y);
      pair(4, part[0].z, part[1].z, part[2].z, part[3].z);
      pair(6, part[0].w, part[1].w, part[2].w, part[3].w);
    }
  }
};

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
