// The tile kernel; tiles.cu instantiates it.
#pragma once

#include "engine/cuda/fma/tiles_chains.cuh"
#include "engine/cuda/fma/tiles_load.cuh"
#include "engine/cuda/fma/tiles_store.cuh"
#if defined(SAMEBITS_ROCM)
#include "engine/hip/launch.hpp"
#else
#include "engine/cuda/launch.hpp"
#endif

namespace samebits::engine::SAMEBITS_GPU::fma_leaf {

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
  uint4 raw[kStagesInShared ? 4 : 1][kTilesThreads];  // of the next chunk
  uint4 pending[kBf16 && kSharedLevels > 0 ? kSharedLevels* kTilesShare / 8 * kTilesThreads : 1];
};

// Of the memory, what a launch asks for: where chunks under way and pending nodes are elsewhere, the
// operands.
template <bool kBf16>
constexpr int tiles_shared_bytes() {
  if constexpr (kStagesInShared || kSharedLevels > 0) return sizeof(TilesMemory<kBf16>);
  return 2 * 2 * kTilesChunk * kTileSide * sizeof(float);
}

// Where a tile is. Bands of rows, columns within a band: blocks side by side share both operands in L2.
struct TilePlace {
  int which, row, col;  // of the contractions; in tiles
  __device__ TilePlace(int tile, int down, int across, int band_height) {
    which = tile / (down * across);
    const int place = tile - which * down * across, band = place / (band_height * across);
    const int in_band = place - band * band_height * across;
    const int height = min(band_height, down - band * band_height);
    row = band * band_height + in_band % height;
    col = in_band / height;
  }
};

// A block's tiles, and the lanes of each, are one sequence of chunks: the first chunk of the next is fetched
// under the last of this one.
template <bool kLeftColumns, bool kRightColumns, bool kBf16>
__global__ void __launch_bounds__(kTilesThreads, kTilesResident)
    tiles_kernel(const __grid_constant__ TilesArguments args, const __grid_constant__ FmaLeafList leaves) {
  extern __shared__ __align__(128) unsigned char raw[];
  auto& memory = *reinterpret_cast<TilesMemory<kBf16>*>(raw);
  using Stack = TileStack<kBf16>;
  const int thread = static_cast<int>(threadIdx.x), loader = thread % kTilesLoaders;
  const bool loads_left = thread < kTilesLoaders;
  const std::int64_t rows = args.left[0].outer, cols = args.right[0].outer;
  const int down = static_cast<int>((rows + kTileSide - 1) / kTileSide);
  const int across = static_cast<int>((cols + kTileSide - 1) / kTileSide);
  const int chunks = (args.k + kTilesChunk - 1) / kTilesChunk, tiles = down * across * args.count;
  const std::uint32_t my_left = shared_address(&memory.left[0][0][thread / 8 * 4]);
  const std::uint32_t my_right = shared_address(&memory.right[0][0][thread % 8 * 4]);

  TileLoad load;
  load.raw = &memory.raw[0][thread];
  const auto begin = [&](int tile, int lane) {
    const TilePlace place(tile, down, across, args.band);
    if (loads_left) {
      load.begin<kLeftColumns>(args.left[place.which + lane], std::int64_t{place.row} * kTileSide, loader);
    } else {
      load.begin<kRightColumns>(args.right[place.which + lane], std::int64_t{place.col} * kTileSide, loader);
    }
  };
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

  int tile = static_cast<int>(blockIdx.x), lane = 0, buffer = 0;
  if (tile >= tiles) return;
  if (chunks > 0) {
    begin(tile, lane);
    fetch();
    place_chunk(0);
    __syncthreads();
  }
  Stack stack{memory.pending,
              args.pending + std::int64_t{blockIdx.x} * args.levels * Stack::kParts * kTilesThreads};
  while (tile < tiles) {
    const bool last_lane = lane + 1 == args.lanes;
    const int next_tile = last_lane ? tile + static_cast<int>(gridDim.x) : tile;
    const int next_lane = last_lane ? 0 : lane + 1;
    TileChains chains;
    int leaf = 0, length = leaves.step[0].length(), left_over = length, node_index = 0;
    for (int c = 0; c < chunks; ++c) {
      const bool more = c + 1 < chunks || next_tile < tiles;
      if (c + 1 == chunks && more) begin(next_tile, next_lane);
      if (more) fetch();
      const int end = min(kTilesChunk, args.k - c * kTilesChunk);
      const auto side = static_cast<std::uint32_t>(buffer * kTilesChunk) * TileChains::kStep;
      for (int k = 0; k < end;) {
        const int n = min(left_over, end - k);
        chains.run(my_left + side, my_right + side, k, n, left_over == length);
        k += n;
        left_over -= n;
        if (left_over > 0) continue;
        const LeafStep step = leaves.step[leaf];
        typename Stack::Share node;
        node.template take<false>(chains.acc);
        chains.forget();
        stack.merge(step.merges(), node);
        const bool emits = step.emits() && last_lane;
        if (emits && args.lanes == 2) stack.add_lanes(args.lanes_precision, node);
        if (emits) {
          const TilePlace place(tile, down, across, args.band);
          const std::int64_t row0 = std::int64_t{place.row} * kTileSide;
          const std::int64_t col0 = std::int64_t{place.col} * kTileSide;
          const Target& target = args.target[place.which];
          if (!store_whole<kBf16>(target, node, node_index, row0, col0, rows, cols)) {
            stack.push(node, 0);
            store_tile<kBf16>(target, stack.pop(), node_index, row0, col0, rows, cols);
          }
          ++node_index;
        } else {
          stack.push(node, step.emits() ? kSharedLevels : step.merges());
        }
        if (++leaf < leaves.count) length = left_over = leaves.step[leaf].length();
      }
      if (more) {
        buffer ^= 1;
        place_chunk(buffer);
        __syncthreads();
      }
    }
    tile = next_tile;
    lane = next_lane;
  }
}

template <bool kLeftColumns, bool kRightColumns>
void prepare_tiles_kernel() {
  allow_shared_memory(tiles_kernel<kLeftColumns, kRightColumns, false>, tiles_shared_bytes<false>());
  allow_shared_memory(tiles_kernel<kLeftColumns, kRightColumns, true>, tiles_shared_bytes<true>());
}

template <bool kLeftColumns, bool kRightColumns>
void launch_tiles(const TilesArguments& args, bool bf16, int blocks, const Leaves& leaves,
                  cudaStream_t stream) {
  LaunchShape shape{.blocks = blocks, .threads = kTilesThreads};
  const auto list = leaves.list<FmaLeafList>();
  if (bf16) {
    shape.shared_bytes = tiles_shared_bytes<true>();
    launch(tiles_kernel<kLeftColumns, kRightColumns, true>, shape, stream, "tile contraction", args, list);
  } else {
    shape.shared_bytes = tiles_shared_bytes<false>();
    launch(tiles_kernel<kLeftColumns, kRightColumns, false>, shape, stream, "tile contraction", args, list);
  }
}

}  // namespace samebits::engine::SAMEBITS_GPU::fma_leaf
