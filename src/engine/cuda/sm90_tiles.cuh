// The kernel of sm90_tiles.hpp. A block is one thread that feeds a ring of operand tiles and two warpgroups
// that each contract 64 rows. A leaf is one uninterrupted chain of wgmma steps; after it the warpgroup merges
// pending nodes, kept in a scratch of its own (L2), and stores what the tree has finished.
#pragma once

#include "engine/cuda/hopper.cuh"
#include "engine/cuda/launch.hpp"
#include "engine/cuda/sm90_epilogue.cuh"
#include "engine/cuda/sm90_tiles.hpp"
#include "engine/cuda/tensor_map.hpp"
#include "engine/cuda/wgmma.cuh"

namespace samebits::engine::cuda::tiles {

inline constexpr int kRows = 128;  // of a tile
inline constexpr int kTurn = 64;   // k of one stage of the ring
inline constexpr int kConsumers = 2;
inline constexpr int kThreads = 128 * (1 + kConsumers);
inline constexpr int kLeftBytes = kRows * kTurn * 2;

constexpr int right_bytes(int width) { return width * kTurn * 2; }
constexpr int stages_for(int width) { return width == 256 ? 4 : 6; }
constexpr int shared_bytes(int width, bool sigma) {
  return 1024 + stages_for(width) * (kLeftBytes + right_bytes(width)) + 16 * stages_for(width) +
         (sigma ? SigmaCache::kBytes : 0);
}

template <class Epilogue>
struct Arguments {
  CUtensorMap left[2], right[2];
  ShortLeafList leaves;
  std::int64_t rows, cols;  // of the result
  int row_groups;           // clusters of tiles down the rows
  int col_tiles;
  float* pending;
  int levels;
  bool bf16_nodes;
  Precision lanes;
  Epilogue epilogue;
};

// Clusters walk down a band of rows before they go on to the next columns, so that what runs at once shares
// operands in L2.
struct TileWalk {
  int row_groups, col_tiles, cluster;
  __device__ int total() const { return row_groups * col_tiles; }
  __device__ void place(int index, int& row_group, int& col_tile) const {
    const int band = cluster == 1 ? 16 : 8, per_band = band * col_tiles;
    const int first = index / per_band * band, height = min(band, row_groups - first),
              within = index % per_band;
    row_group = first + within % height;
    col_tile = within / height;
  }
};

// A thread's pending nodes: sixteen bytes of every 256 threads side by side.
template <int kRegisters>
struct TilePending {
  float4* data;  // this thread's of level 0
  int height = 0;
  static constexpr int kLevel = kRegisters / 4 * 128 * kConsumers;  // in float4

  __device__ void push(const float (&acc)[kRegisters]) {
    float4* const to = data + height++ * kLevel;
#pragma unroll
    for (int i = 0; i < kRegisters / 4; ++i) {
      to[i * 128 * kConsumers] = make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]);
    }
  }
  // acc = combine(pending, acc)
  template <class Combine>
  __device__ void pop(float (&acc)[kRegisters], const Combine& combine) {
    const float4* const from = data + --height * kLevel;
#pragma unroll
    for (int i = 0; i < kRegisters / 4; ++i) {
      const float4 lower = from[i * 128 * kConsumers];
      acc[4 * i] = combine(lower.x, acc[4 * i]);
      acc[4 * i + 1] = combine(lower.y, acc[4 * i + 1]);
      acc[4 * i + 2] = combine(lower.z, acc[4 * i + 2]);
      acc[4 * i + 3] = combine(lower.w, acc[4 * i + 3]);
    }
  }
};

template <class Epilogue, int kWidth, int kLanes, TileLayout kLeft, TileLayout kRight>
struct TileKernel {
  static constexpr bool kDual = Epilogue::kParts == 2;  // gate and up side by side in the right tile
  static constexpr int kStages = stages_for(kWidth);
  static constexpr int kRightBytes = right_bytes(kWidth);
  static constexpr int kColumns = kDual ? kWidth / 2 : kWidth;  // of the result
  static constexpr int kRegisters = kWidth / 2;

  struct Ring {
    unsigned char *left, *right;
    std::uint64_t *full, *empty;
    float* sigma;
  };

  __device__ static Ring ring_of(unsigned char* memory) {
    auto* const left = memory + (1024 - (shared_address(memory) & 1023)) % 1024;
    auto* const right = left + kStages * kLeftBytes;
    auto* const full = reinterpret_cast<std::uint64_t*>(right + kStages * kRightBytes);
    return {left, right, full, full + kStages, reinterpret_cast<float*>(full + 2 * kStages)};
  }

  // Operand tiles of one stage; the right one in equal parts by the blocks of the cluster, each for all of
  // them.
  __device__ static void load(const Arguments<Epilogue>& args, const Ring& ring, int stage, int lane, int k,
                              int row, int col, int rank, int cluster) {
    std::uint64_t* const full = &ring.full[stage];
    barrier_expect(full, kLeftBytes + kRightBytes);
    unsigned char* const left = ring.left + stage * kLeftBytes;
    if constexpr (kLeft == TileLayout::k_major) {
      load_tile(left, &args.left[lane], k, row, full, Keep::normal);
    } else {
      for (int chunk = 0; chunk < kRows / 64; ++chunk) {
        load_tile(left + chunk * 64 * kTurn * 2, &args.left[lane], row + chunk * 64, k, full, Keep::normal);
      }
    }
    const auto everyone = static_cast<std::uint16_t>((1 << cluster) - 1);
    const auto part = [&](int offset, const CUtensorMap* map, int x, int y) {
      unsigned char* const to = ring.right + stage * kRightBytes + offset;
      if (cluster == 1) {
        load_tile(to, map, x, y, full, Keep::normal);
      } else {
        load_tile_for_all(to, map, x, y, full, everyone, Keep::normal);
      }
    };
    if constexpr (kDual) {
      for (int half = rank; half < 2; half += cluster)
        part(half * kRightBytes / 2, &args.right[half], k, col);
    } else if constexpr (kRight == TileLayout::k_major) {
      const int rows = kWidth / cluster;
      part(rank * rows * kTurn * 2, &args.right[lane], k, col + rank * rows);
    } else {
      for (int chunk = rank; chunk < kWidth / 64; chunk += cluster) {
        part(chunk * 64 * kTurn * 2, &args.right[lane], col + chunk * 64, k);
      }
    }
  }

  __device__ static void produce(const Arguments<Epilogue>& args, const Ring& ring, const TileWalk& walk,
                                 int rank, int cluster) {
    RingPlace at;
    for (int tile = static_cast<int>(blockIdx.x) / cluster; tile < walk.total();
         tile += static_cast<int>(gridDim.x) / cluster) {
      int row_group, col_tile;
      walk.place(tile, row_group, col_tile);
      const int row = (row_group * cluster + rank) * kRows, col = col_tile * kColumns;
      for (int lane = 0; lane < kLanes; ++lane) {
        int begin = 0;
        for (int i = 0; i < args.leaves.count; ++i) {
          const int length = args.leaves.step[i].length();
          for (int k = 0; k < length; k += kTurn) {
            barrier_wait(&ring.empty[at.stage], at.phase ^ 1u);
            load(args, ring, at.stage, lane, begin + k, row, col, rank, cluster);
            at.advance(kStages);
          }
          begin += length;
        }
      }
    }
  }

  // Tells every block of the cluster that this warp has read a stage.
  __device__ static void release(const Ring& ring, int stage, int cluster) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < cluster) barrier_arrive_at(&ring.empty[stage], static_cast<std::uint32_t>(lane));
  }

  // One leaf: acc from +0, ascending in k.
  __device__ static void contract(const Ring& ring, RingPlace& at, int length, std::uint64_t left,
                                  std::uint64_t right, int cluster, float (&acc)[kRegisters]) {
    using Step = Wgmma<kWidth, is_transposed(kLeft), is_transposed(kRight)>;
    constexpr std::uint64_t kLeftStep = k16_bytes(kLeft) >> 4, kRightStep = k16_bytes(kRight) >> 4;
    const auto at_stage = [&](std::uint64_t base, int bytes) {
      return base + static_cast<std::uint64_t>(at.stage * (bytes >> 4));
    };
#pragma unroll
    for (float& value : acc) value = 0.0f;
    pin(acc);
    // One turn is in the tensor cores while the next is issued: both warpgroups would else pause together.
    const int rest = length % kTurn;
    int before = -1;
#pragma unroll 1
    for (int k = kTurn; k <= length; k += kTurn) {
      barrier_wait(&ring.full[at.stage], at.phase);
      const std::uint64_t a = at_stage(left, kLeftBytes), b = at_stage(right, kRightBytes);
      wgmma_fence();
#pragma unroll
      for (int s = 0; s < kTurn / 16; ++s) Step::step(acc, a + s * kLeftStep, b + s * kRightStep);
      wgmma_commit();
      wgmma_wait<1>();
      if (before >= 0) release(ring, before, cluster);
      before = at.stage;
      at.advance(kStages);
    }
    wgmma_wait<0>();
    pin(acc);
    if (before >= 0) release(ring, before, cluster);
    if (rest == 0) return;
    // The leaf ends inside this stage: what follows there belongs to the next leaf, or is +0.
    barrier_wait(&ring.full[at.stage], at.phase);
#pragma unroll 1
    for (int s = 0; s * 16 < rest; ++s) {
      wgmma_fence();
      Step::step(acc, at_stage(left, kLeftBytes) + s * kLeftStep,
                 at_stage(right, kRightBytes) + s * kRightStep);
      wgmma_commit();
      wgmma_wait<0>();
      pin(acc);
    }
    release(ring, at.stage, cluster);
    at.advance(kStages);
  }

  __device__ static void consume(const Arguments<Epilogue>& args, const Ring& ring, const TileWalk& walk,
                                 int rank, int cluster) {
    const int group = static_cast<int>(threadIdx.x) / 128 - 1;  // 64 rows of the tile
    const std::uint64_t left = tile_descriptor<kLeft>(ring.left + group * 64 * kTurn * 2, 64 * kTurn * 2);
    const std::uint64_t right = tile_descriptor<kRight>(ring.right, 64 * kTurn * 2);
    SigmaCache cache;
    if constexpr (Epilogue::kSigma) cache = {ring.sigma, args.epilogue.sigma};
    RingPlace at;
    for (int tile = static_cast<int>(blockIdx.x) / cluster; tile < walk.total();
         tile += static_cast<int>(gridDim.x) / cluster) {
      int row_group, col_tile;
      walk.place(tile, row_group, col_tile);
      const TilePlace place{std::int64_t{row_group * cluster + rank} * kRows + group * 64,
                            std::int64_t{col_tile} * kColumns, args.rows, args.cols};
      TilePending<kRegisters> pending{reinterpret_cast<float4*>(args.pending) +
                                      static_cast<std::int64_t>(blockIdx.x) * args.levels *
                                          TilePending<kRegisters>::kLevel +
                                      (threadIdx.x - 128)};
      float acc[kRegisters];
      for (int lane = 0; lane < kLanes; ++lane) {
        int node = 0;
#pragma unroll 1
        for (int i = 0; i < args.leaves.count; ++i) {
          const LeafStep leaf = args.leaves.step[i];
          contract(ring, at, leaf.length(), left, right, cluster, acc);
          if (args.bf16_nodes) {
#pragma unroll
            for (float& value : acc) value = numerics::rounded_bf16(value);
          }
#pragma unroll 1
          for (int merge = 0; merge < leaf.merges(); ++merge) {
            pending.pop(acc,
                        [&](float lower, float upper) { return as_node(args.bf16_nodes, lower + upper); });
          }
          if (!leaf.emits() || lane + 1 < kLanes) {
            pending.push(acc);
            continue;
          }
          if constexpr (kLanes == 2) {
            pending.pop(acc, [&](float gate, float up) {
              return args.lanes == Precision::bf16 ? numerics::rounded_bf16(gate) + numerics::rounded_bf16(up)
                                                   : gate + up;
            });
          }
          args.epilogue.store(acc, place, node++, cache);
        }
      }
    }
  }

  __device__ static void run(const Arguments<Epilogue>& args, unsigned char* memory) {
    const Ring ring = ring_of(memory);
    const int rank = static_cast<int>(cluster_rank()), cluster = static_cast<int>(cluster_size());
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        barrier_init(&ring.full[stage], 1);
        barrier_init(&ring.empty[stage], kConsumers * 4 * cluster);
      }
      barrier_init_fence();
      for (int i = 0; i < 2; ++i) {
        prefetch_map(&args.left[i]);
        prefetch_map(&args.right[i]);
      }
    }
    if constexpr (Epilogue::kSigma) SigmaCache::fill(ring.sigma, args.epilogue.sigma, kThreads);
    __syncthreads();
    cluster_sync();
    wait_for_kernels_before();
    const TileWalk walk{args.row_groups, args.col_tiles, cluster};
    if (threadIdx.x < 128) {
      lower_registers<24>();
      if (threadIdx.x == 0) {
        produce(args, ring, walk, rank, cluster);
        let_next_kernel_begin();
      }
    } else {
      raise_registers<240>();
      consume(args, ring, walk, rank, cluster);
    }
    __syncwarp();
    cluster_sync();  // nobody leaves while others may still write to it
  }
};

template <class Epilogue, int kWidth, int kLanes, TileLayout kLeft, TileLayout kRight>
__global__ void __launch_bounds__(kThreads, 1) tile_kernel(const __grid_constant__ Arguments<Epilogue> args) {
  extern __shared__ unsigned char memory[];
  TileKernel<Epilogue, kWidth, kLanes, kLeft, kRight>::run(args, memory);
}

template <class Epilogue, int kLanes, TileLayout kLeft, TileLayout kRight>
void prepare_kernels() {
  allow_shared_memory(tile_kernel<Epilogue, 256, kLanes, kLeft, kRight>, shared_bytes(256, Epilogue::kSigma));
  allow_shared_memory(tile_kernel<Epilogue, 128, kLanes, kLeft, kRight>, shared_bytes(128, Epilogue::kSigma));
}

template <class Epilogue, int kWidth, int kLanes, TileLayout kLeft, TileLayout kRight>
void launch_width(const TileProblem& problem, const Epilogue& epilogue, int cluster,
                  const TileResources& resources) {
  constexpr bool kDual = Epilogue::kParts == 2;
  constexpr int kColumns = kDual ? kWidth / 2 : kWidth;
  Arguments<Epilogue> args{};
  const int right_rows = kDual ? kWidth / 2 : kWidth / cluster;
  for (int i = 0; i < 2; ++i) {
    const Operand& left = problem.left[kLanes == 2 ? i : 0];
    const Operand& right = problem.right[kLanes == 2 || kDual ? i : 0];
    args.left[i] = make_tensor_map(left, problem.k, 64, kLeft == TileLayout::k_major ? kRows : kTurn);
    args.right[i] = make_tensor_map(right, problem.k, 64, kRight == TileLayout::k_major ? right_rows : kTurn);
  }
  args.leaves = problem.leaves->list<ShortLeafList>();
  args.rows = problem.left[0].outer;
  args.cols = problem.right[0].outer;
  args.row_groups = static_cast<int>((args.rows + kRows * cluster - 1) / (kRows * cluster));
  args.col_tiles = static_cast<int>((args.cols + kColumns - 1) / kColumns);
  args.pending = resources.pending;
  args.levels = resources.levels;
  args.bf16_nodes = problem.bf16_nodes;
  args.lanes = problem.lanes_precision;
  args.epilogue = epilogue;
  const int clusters = std::min(args.row_groups * args.col_tiles, resources.multiprocessors / cluster);
  launch(tile_kernel<Epilogue, kWidth, kLanes, kLeft, kRight>,
         {clusters * cluster, kThreads, shared_bytes(kWidth, Epilogue::kSigma), cluster, resources.early},
         resources.stream, "contraction in tiles", args);
}

template <class Epilogue, int kLanes, TileLayout kLeft, TileLayout kRight>
void launch_tiles(const TileProblem& problem, const Epilogue& epilogue, const TileTuning& tuning,
                  const TileResources& resources) {
  if (tuning.width == 256) {
    launch_width<Epilogue, 256, kLanes, kLeft, kRight>(problem, epilogue, tuning.cluster, resources);
  } else {
    launch_width<Epilogue, 128, kLanes, kLeft, kRight>(problem, epilogue, tuning.cluster, resources);
  }
}

}  // namespace samebits::engine::cuda::tiles
