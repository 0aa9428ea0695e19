// The tile kernel; fma_tiles_*.cu instantiate it.
#pragma once

#include "engine/cuda/fma_tiles_chains.cuh"
#include "engine/cuda/fma_tiles_load.cuh"
#include "engine/cuda/launch.hpp"
#include "engine/cuda/nodes.cuh"

namespace samebits::engine::cuda::fma_leaf {

struct TilesArguments {
  Operand left[2], right[2];
  Target target[2];
  int count, lanes;
  Precision lanes_precision;
  int k, band;
  uint4* pending;
  int levels;
};

template <bool kBf16>
struct TilesMemory {
  float left[2][kTilesChunk][kTileSide];
  float right[2][kTilesChunk][kTileSide];
  uint4 raw[4]
           [kTilesThreads];  // of the next chunk; what is read ahead of a chunk, and never used, is here too
  uint4 pending[kBf16 ? kSharedLevels * kTilesShare / 8 * kTilesThreads : 1];
};

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

template <bool kLeftColumns, bool kRightColumns, bool kBf16>
__global__ void __launch_bounds__(kTilesThreads, 2)
    tiles_kernel(const __grid_constant__ TilesArguments args, const __grid_constant__ FmaLeafList leaves) {
  extern __shared__ __align__(128) unsigned char raw[];
  auto& memory = *reinterpret_cast<TilesMemory<kBf16>*>(raw);
  using Stack = TileStack<kBf16>;
  const int thread = static_cast<int>(threadIdx.x), loader = thread % kTilesLoaders;
  const bool loads_left = thread < kTilesLoaders;
  const std::int64_t rows = args.left[0].outer, cols = args.right[0].outer;
  const int down = static_cast<int>((rows + kTileSide - 1) / kTileSide);
  const int across = static_cast<int>((cols + kTileSide - 1) / kTileSide);
  const int chunks = (args.k + kTilesChunk - 1) / kTilesChunk;
  const int my_row = thread / 8 * 4, my_col = thread % 8 * 4;

  for (int tile = static_cast<int>(blockIdx.x); tile < down * across * args.count;
       tile += static_cast<int>(gridDim.x)) {
    // Bands of rows, columns within a band: blocks side by side share both operands in L2.
    const int which = tile / (down * across), place = tile % (down * across);
    const int band = place / (args.band * across), in_band = place - band * args.band * across;
    const int height = min(args.band, down - band * args.band);
    const std::int64_t row0 = std::int64_t{band * args.band + in_band % height} * kTileSide;
    const std::int64_t col0 = std::int64_t{in_band / height} * kTileSide;
    Stack stack{memory.pending,
                args.pending + std::int64_t{blockIdx.x} * args.levels * Stack::kParts * kTilesThreads};

    for (int lane = 0; lane < args.lanes; ++lane) {
      const Operand& left = args.left[which + lane];
      const Operand& right = args.right[which + lane];
      TileLoad load;
      load.raw = &memory.raw[0][thread];
      const auto fetch = [&] {
        if constexpr (kLeftColumns == kRightColumns) return load.fetch<kLeftColumns>(args.k);
        if (loads_left) {
          load.fetch<kLeftColumns>(args.k);
        } else {
          load.fetch<kRightColumns>(args.k);
        }
      };
      const auto place_chunk = [&](int buffer) {
        if constexpr (kLeftColumns == kRightColumns) {
          return load.place<kLeftColumns>(loads_left ? memory.left[buffer] : memory.right[buffer], loader);
        }
        if (loads_left) {
          load.place<kLeftColumns>(memory.left[buffer], loader);
        } else {
          load.place<kRightColumns>(memory.right[buffer], loader);
        }
      };
      if (loads_left) {
        load.begin<kLeftColumns>(left, row0, loader);
      } else {
        load.begin<kRightColumns>(right, col0, loader);
      }
      fetch();
      __syncthreads();  // the chunks before have been read
      place_chunk(0);
      __syncthreads();

      TileChains chains;
      int leaf = 0, length = leaves.step[0].length(), left_over = length, node_index = 0;
      for (int c = 0; c < chunks; ++c) {
        if (c + 1 < chunks) fetch();
        const int end = min(kTilesChunk, args.k - c * kTilesChunk);
        for (int k = 0; k < end;) {
          const int n = min(left_over, end - k);
          chains.run(&memory.left[c & 1][0][my_row], &memory.right[c & 1][0][my_col], k, n,
                     left_over == length);
          k += n;
          left_over -= n;
          if (left_over > 0) continue;
          const LeafStep step = leaves.step[leaf];
          typename Stack::Share node;
          node.template take<false>(chains.acc);
          chains.forget();
          stack.merge(step.merges(), node);
          const bool emits = step.emits() && lane + 1 == args.lanes;
          if (emits && args.lanes == 2) stack.add_lanes(args.lanes_precision, node);
          stack.push(node, emits ? 0 : step.emits() ? kSharedLevels : step.merges());
          if (emits) {
            store_tile<kBf16>(args.target[which], stack.pop(), node_index++, row0, col0, rows, cols);
          }
          if (++leaf < leaves.count) length = left_over = leaves.step[leaf].length();
        }
        if (c + 1 < chunks) {
          place_chunk((c + 1) & 1);
          __syncthreads();
        }
      }
    }
  }
}

template <bool kLeftColumns, bool kRightColumns>
void prepare_tiles_kernel() {
  allow_shared_memory(tiles_kernel<kLeftColumns, kRightColumns, false>, sizeof(TilesMemory<false>));
  allow_shared_memory(tiles_kernel<kLeftColumns, kRightColumns, true>, sizeof(TilesMemory<true>));
}

template <bool kLeftColumns, bool kRightColumns>
void launch_tiles(const TilesArguments& args, bool bf16, int blocks, const Leaves& leaves,
                  cudaStream_t stream) {
  LaunchShape shape{.blocks = blocks, .threads = kTilesThreads};
  const auto list = leaves.list<FmaLeafList>();
  if (bf16) {
    shape.shared_bytes = sizeof(TilesMemory<true>);
    launch(tiles_kernel<kLeftColumns, kRightColumns, true>, shape, stream, "tile contraction", args, list);
  } else {
    shape.shared_bytes = sizeof(TilesMemory<false>);
    launch(tiles_kernel<kLeftColumns, kRightColumns, false>, shape, stream, "tile contraction", args, list);
  }
}

}  // namespace samebits::engine::cuda::fma_leaf
