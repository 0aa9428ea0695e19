// The kernel of outer.hpp. A block is one thread that brings operands and two warpgroups with 64 rows of
// a tile each. A warpgroup contracts, writes its rows into one of two places in shared memory, and one of its
// threads sends them off; nobody waits for them before the place is needed again.
#pragma once

#include "engine/cuda/hopper.cuh"
#include "engine/cuda/sm90/boxes.cuh"
#include "engine/cuda/sm90/wgmma.cuh"

namespace samebits::engine::cuda::outer {

inline constexpr int kRows = 128, kColumns = 256;  // of a tile
inline constexpr int kGroups = 2;                  // warpgroups, 64 rows each
inline constexpr int kThreads = 128 * kGroups + 32;
inline constexpr int kRegisters = kColumns / 2;  // of a thread, for accumulators

// Tokens of a stage; operands lie in chunks of 64 columns, results in boxes of 64 x 64.
inline constexpr int kTurn = 64, kStages = 2, kPlaces = 2;
inline constexpr int kChunkBytes = 64 * kTurn * 2, kBoxBytes = 64 * 64 * 2;
inline constexpr int kLeftBytes = kRows / 64 * kChunkBytes, kRightBytes = kColumns / 64 * kChunkBytes;
inline constexpr int kStageBytes = kLeftBytes + kRightBytes;
inline constexpr int kBoxes = kColumns / 64;  // of a warpgroup
inline constexpr int kPlaceBytes = kGroups * kBoxes * kBoxBytes;
inline constexpr int kSharedBytes = 1024 + kStages * (kStageBytes + 16) + kPlaces * kPlaceBytes;

struct Arguments {
  CUtensorMap left, right, result;
  std::int64_t rows, cols;
  int col_tiles, tiles;
  int tokens;
  int turn;  // tokens that a stage brings
};

struct Memory {
  unsigned char *stages, *places;
  std::uint64_t *full, *empty;

  __device__ explicit Memory(unsigned char* memory) {
    stages = memory + (1024 - (shared_address(memory) & 1023)) % 1024;
    places = stages + kStages * kStageBytes;
    full = reinterpret_cast<std::uint64_t*>(places + kPlaces * kPlaceBytes);
    empty = full + kStages;
  }
  __device__ unsigned char* left(int stage) const { return stages + stage * kStageBytes; }
  __device__ unsigned char* right(int stage) const { return left(stage) + kLeftBytes; }
  __device__ unsigned char* box(int place, int group, int index) const {
    return places + place * kPlaceBytes + (group * kBoxes + index) * kBoxBytes;
  }
};

// Neighbouring blocks write neighbours along the rows of the result.
__device__ inline TilePlace place_of(const Arguments& args, int tile) {
  return {std::int64_t{tile / args.col_tiles} * kRows, std::int64_t{tile % args.col_tiles} * kColumns,
          args.rows, args.cols};
}

__device__ inline void produce(const Arguments& args, const Memory& memory) {
  const auto bytes = static_cast<std::uint32_t>((kRows + kColumns) * args.turn * 2);
  RingPlace at;
  for (int tile = static_cast<int>(blockIdx.x); tile < args.tiles; tile += static_cast<int>(gridDim.x)) {
    const TilePlace place = place_of(args, tile);
    const int row = static_cast<int>(place.row), col = static_cast<int>(place.col);
    for (int k = 0; k < args.tokens; k += args.turn) {
      std::uint64_t* const full = memory.full + at.stage;
      barrier_wait(memory.empty + at.stage, at.phase ^ 1u);
      barrier_expect(full, bytes);
      for (int i = 0; i < kRows / 64; ++i)
        load_tile(memory.left(at.stage) + i * kChunkBytes, &args.left, row + i * 64, k, full, Keep::normal);
      for (int i = 0; i < kColumns / 64; ++i)
        load_tile(memory.right(at.stage) + i * kChunkBytes, &args.right, col + i * 64, k, full, Keep::normal);
      at.advance(kStages);
    }
  }
}

// The threads of a warpgroup have all come here.
__device__ inline void group_sync(int group) {
  asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
}

__device__ inline void contract(const Arguments& args, const Memory& memory, RingPlace& at, int group,
                                float (&acc)[kRegisters]) {
  using Step = Wgmma<kColumns, true, true>;
  constexpr std::uint64_t kStep = k16_bytes(TileLayout::mn64) >> 4;
  for (int k = 0; k < args.tokens; k += args.turn) {
    const std::uint64_t left =
        tile_descriptor<TileLayout::mn64>(memory.left(at.stage) + group * kChunkBytes, kChunkBytes);
    const std::uint64_t right = tile_descriptor<TileLayout::mn64>(memory.right(at.stage), kChunkBytes);
    const int steps = (min(args.turn, args.tokens - k) + 15) / 16;
    barrier_wait(memory.full + at.stage, at.phase);
    pin(acc);
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      wgmma_fence();
      Step::step(acc, left + s * kStep, right + s * kStep);
      wgmma_commit();
    }
    wgmma_wait<0>();
    pin(acc);
    if (threadIdx.x % 32 == 0) barrier_arrive(memory.empty + at.stage);
    at.advance(kStages);
  }
}

// A warpgroup's rows in the order in which the copy engine takes them.
__device__ inline void write(const Memory& memory, int place, int group, const float (&acc)[kRegisters]) {
  NanWatch watch;
#pragma unroll
  for (int i = 0; i < kBoxes; ++i) {
    const BoxRows<64> rows(memory.box(place, group, i));
#pragma unroll
    for (int pair = 0; pair < BoxRows<64>::kPairs; ++pair) {
      const int from = (i * BoxRows<64>::kPairs + pair) * 2;
      const std::uint32_t word = pack_pair(acc[from], acc[from + 1]);
      watch.see(word);
      rows.put(pair, word);
    }
  }
  if (!watch.seen()) return;
  for (int i = 0; i < kBoxes; ++i) BoxRows<64>(memory.box(place, group, i)).mend();
}

__device__ inline void consume(const Arguments& args, const Memory& memory) {
  const int group = static_cast<int>(threadIdx.x) / 128;
  const bool sends = threadIdx.x % 128 == 0;
  RingPlace at;
  int place = 0;
  for (int tile = static_cast<int>(blockIdx.x); tile < args.tiles; tile += static_cast<int>(gridDim.x)) {
    float acc[kRegisters];
#pragma unroll
    for (float& value : acc) value = 0.0f;
    contract(args, memory, at, group, acc);
    if (sends) wait_until_read<kPlaces - 1>();
    group_sync(group);
    write(memory, place, group, acc);
    fence_shared_for_copies();
    group_sync(group);
    if (sends) {
      TilePlace to = place_of(args, tile);
      to.row += group * 64;
      for (int i = 0; i < kBoxes; ++i) to.send(&args.result, i * 64, memory.box(place, group, i));
      commit_stores();
    }
    place ^= 1;
  }
  if (sends) wait_until_read<0>();
}

__global__ void __launch_bounds__(kThreads, 1) outer_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ unsigned char shared[];
  const Memory memory(shared);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(memory.full + stage, 1);
      barrier_init(memory.empty + stage, 4 * kGroups);
    }
    barrier_init_fence();
    prefetch_map(&args.left);
    prefetch_map(&args.right);
    prefetch_map(&args.result);
  }
  __syncthreads();
  wait_for_kernels_before();
  if (threadIdx.x < 128 * kGroups) {
    consume(args, memory);
  } else if (threadIdx.x % 32 == 0) {
    produce(args, memory);
    let_next_kernel_begin();
  }
}

}  // namespace samebits::engine::cuda::outer
