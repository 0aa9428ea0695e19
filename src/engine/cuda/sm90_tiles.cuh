// The kernel of sm90_tiles.hpp. A block is one thread that feeds a ring of operand tiles and two
// warpgroups that each contract 64 rows. A leaf is one uninterrupted chain of wgmma steps; after it the
// warpgroup merges pending nodes, kept in a scratch of its own (L2), and stores what the tree has finished.
#pragma once

#include <algorithm>
#include <string>

#include "engine/cuda/built_kernels.hpp"
#include "engine/cuda/launch.hpp"
#include "engine/cuda/sm90_epilogue.cuh"
#include "engine/cuda/sm90_tiles.hpp"
#include "engine/cuda/sm90_tiles_ring.cuh"
#include "engine/cuda/tensor_map.hpp"
#include "engine/cuda/wgmma.cuh"
#include "samebits/error.hpp"

namespace samebits::engine::cuda::tiles {

template <class Epilogue>
struct Arguments {
  CUtensorMap left[2], right[2];
  CUtensorMap left_end[2];                            // of rows by k: what is left of the last tile's
  CUtensorMap result[Epilogue::kResults], source[2];  // where results leave through the ring
  bool staged;                                        // so they do
  ShortLeafList leaves;
  std::int64_t rows, cols;  // of the result
  ClusterShape cluster;
  int row_groups, col_groups;                   // clusters of tiles
  int left_bytes, left_end_bytes, right_bytes;  // that arrive in a stage of the ring
  float* pending;
  int levels;
  bool bf16_nodes;
  Precision lanes;
  Epilogue epilogue;
};

// Where a block is: the tiles of its clusters, and its place in them.
template <class Epilogue>
struct TileWalk {
  const Arguments<Epilogue>& args;
  int rank, row_rank, col_rank, size;  // of the cluster

  __device__ explicit TileWalk(const Arguments<Epilogue>& arguments)
      : args(arguments),
        rank(static_cast<int>(cluster_rank())),
        row_rank(rank / args.cluster.cols),
        col_rank(rank % args.cluster.cols),
        size(args.cluster.rows * args.cluster.cols) {}
  __device__ int first() const { return static_cast<int>(blockIdx.x) / size; }
  __device__ int step() const { return static_cast<int>(gridDim.x) / size; }
  __device__ int total() const { return args.row_groups * args.col_groups; }

  // Clusters walk down a band of rows before they go on to the next columns, so that what runs at once shares
  // operands in L2.
  template <int kColumns>
  __device__ TilePlace place(int index) const {
    const int band = 16 / args.cluster.rows, per_band = band * args.col_groups;
    const int begin = index / per_band * band, height = min(band, args.row_groups - begin),
              within = index % per_band;
    const int row_group = begin + within % height, col_group = within / height;
    return {(std::int64_t{row_group} * args.cluster.rows + row_rank) * kRows,
            (std::int64_t{col_group} * args.cluster.cols + col_rank) * kColumns, args.rows, args.cols};
  }
};

// A thread's pending nodes in the scratch: sixteen bytes of every thread side by side. Of a node that the
// next leaf is merged with, the first kNear values stay in registers.
template <int kRegisters, int kNear>
struct TilePending {
  static constexpr int kThreads = 128 * kGroups, kLevel = kRegisters / 4 * kThreads;  // in float4
  float4* scratch;  // this thread's, of level 0
  int height = 0;
  bool top_is_near = false;
  float near[kNear];
  static_assert(kRegisters % kNear == 0);

  __device__ void push(const float (&acc)[kRegisters], bool stays_near) {
    float4* const level = scratch + height++ * kLevel;
    top_is_near = stays_near;
    if (stays_near) {
#pragma unroll
      for (int i = 0; i < kNear; ++i) near[i] = acc[i];
    } else {
      store<0, kNear>(level, acc);
    }
    store<kNear, kRegisters>(level, acc);
  }
  // acc = combine(pending, acc)
  template <class Combine>
  __device__ void pop(float (&acc)[kRegisters], const Combine& combine) {
    const float4* const level = scratch + --height * kLevel;
    if (top_is_near) {
#pragma unroll
      for (int i = 0; i < kNear; ++i) acc[i] = combine(near[i], acc[i]);
    } else {
      merge<0, kNear>(level, acc, combine);
    }
    merge<kNear, kRegisters>(level, acc, combine);
    top_is_near = false;
#pragma unroll
    for (float& value : near) value = 0.0f;  // or its registers would be kept while values are on their way
  }

 private:
  template <int kBegin, int kEnd>
  __device__ static void store(float4* level, const float (&acc)[kRegisters]) {
#pragma unroll
    for (int i = kBegin; i < kEnd; i += 4)
      level[i / 4 * kThreads] = make_float4(acc[i], acc[i + 1], acc[i + 2], acc[i + 3]);
  }
  // As many values on their way at once as there are registers for: what waits is the way to L2.
  template <int kBegin, int kEnd, class Combine>
  __device__ static void merge(const float4* level, float (&acc)[kRegisters], const Combine& combine) {
#pragma unroll
    for (int begin = kBegin; begin < kEnd; begin += kNear) {
      float4 lower[kNear / 4];
#pragma unroll
      for (int i = 0; i < kNear / 4; ++i) lower[i] = load_now(level + (begin / 4 + i) * kThreads);
#pragma unroll
      for (int i = 0; i < kNear / 4; ++i) {
        const int to = begin + 4 * i;
        acc[to] = combine(lower[i].x, acc[to]);
        acc[to + 1] = combine(lower[i].y, acc[to + 1]);
        acc[to + 2] = combine(lower[i].z, acc[to + 2]);
        acc[to + 3] = combine(lower[i].w, acc[to + 3]);
      }
    }
  }
  // In the order in which it is written.
  __device__ static float4 load_now(const float4* from) {
    float4 out;
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(out.x), "=f"(out.y), "=f"(out.z), "=f"(out.w)
                 : "l"(from)
                 : "memory");
    return out;
  }
};

template <class Epilogue, class Shape, int kLanes, TileLayout kLeft, TileLayout kRight>
struct TileKernel {
  static constexpr bool kDual = Epilogue::kParts == 2;  // gate and up side by side in the right tile
  using Ring = tiles::Ring<Shape>;
  using Walk = TileWalk<Epilogue>;
  static constexpr int kStages = Shape::kStages, kRegisters = Shape::kRegisters;
  static constexpr int kColumns = kDual ? Shape::kWidth / 2 : Shape::kWidth;  // of the result
  static constexpr int kChunks = Epilogue::template kChunks<Shape>;
  // What a launch gives 384 threads is 168 each; together these are no more, or the second would wait
  // forever.
  static constexpr int kProducerRegisters = 56, kConsumerRegisters = 224;
  static_assert(kProducerRegisters + kGroups * kConsumerRegisters <= 168 * (1 + kGroups));
  // As many values of a pending node as fit beside the accumulators and what a second lane or sigma takes.
  static constexpr int kNear = std::min(kRegisters, kLanes == 2 || Epilogue::kSigma ? 32 : 64);

  // What this block brings of the operand tiles. Blocks of a cluster that need the same tile bring equal
  // parts of it, each to all of them: the left one is shared along a row of the cluster, the right one down a
  // column. A part is some of the rows; or every second chunk of 64 columns, every second of gate and up.
  struct Parts {
    int along_row, down_column;  // blocks that share: the cluster's extents
    int col_rank, row_rank;
    int left_row, right_row;
    std::uint16_t left_blocks, right_blocks;

    __device__ Parts(const ClusterShape& cluster, const Walk& walk)
        : along_row(cluster.cols),
          down_column(cluster.rows),
          col_rank(walk.col_rank),
          row_rank(walk.row_rank),
          left_row(kRows / along_row * col_rank),
          right_row(Shape::kWidth / down_column * row_rank),
          left_blocks(static_cast<std::uint16_t>(((1 << along_row) - 1) << (row_rank * along_row))),
          right_blocks(0) {
      for (int row = 0; row < down_column; ++row)
        right_blocks |= static_cast<std::uint16_t>(1 << (row * along_row + col_rank));
    }
  };

  // A box of 64 k of rows, or of 64 columns of some k.
  __device__ static void copy(unsigned char* to, const CUtensorMap* map, int x, int y, std::uint64_t* full,
                              int sharers, std::uint16_t blocks) {
    if (sharers == 1) {
      load_tile(to, map, x, y, full, Keep::normal);
    } else {
      load_tile_for_all(to, map, x, y, full, blocks, Keep::normal);
    }
  }

  // What a tile brings of its left operand: rows beyond the last are not brought (they would be slow to
  // come), and what is in their place is contracted but not stored.
  struct LeftRows {
    const CUtensorMap* map;
    bool some = true;
    std::uint32_t stage_bytes;

    __device__ LeftRows(const Arguments<Epilogue>& args, const TilePlace& place, int lane)
        : map(&args.left[lane]), stage_bytes(static_cast<std::uint32_t>(args.left_bytes + args.right_bytes)) {
      if (kLeft != TileLayout::k_major || place.row + kRows <= place.rows || args.cluster.cols > 1) return;
      some = place.row < place.rows;
      map = &args.left_end[lane];
      stage_bytes = static_cast<std::uint32_t>((some ? args.left_end_bytes : 0) + args.right_bytes);
    }
  };

  // Operand tiles of one stage: nothing here that a turn of the ring would have to wait for.
  __device__ static void load(const Arguments<Epilogue>& args, const Ring& ring, const Parts& parts,
                              const LeftRows& rows, int stage, int lane, int k, int row, int col) {
    std::uint64_t* const full = ring.full(stage);
    barrier_expect(full, rows.stage_bytes);
    unsigned char* const left = ring.left(stage);
    if constexpr (kLeft == TileLayout::k_major) {
      if (rows.some) {
        copy(left + parts.left_row * kTurn * 2, rows.map, k, row + parts.left_row, full, parts.along_row,
             parts.left_blocks);
      }
    } else {
      for (int chunk = parts.col_rank; chunk < kRows / 64; chunk += parts.along_row) {
        copy(left + chunk * 64 * kTurn * 2, &args.left[lane], row + chunk * 64, k, full, parts.along_row,
             parts.left_blocks);
      }
    }
    unsigned char* const right = ring.right(stage);
    if constexpr (kDual) {
      for (int half = parts.row_rank; half < 2; half += parts.down_column) {
        copy(right + half * Shape::kRightBytes / 2, &args.right[half], k, col, full, parts.down_column,
             parts.right_blocks);
      }
    } else if constexpr (kRight == TileLayout::k_major) {
      copy(right + parts.right_row * kTurn * 2, &args.right[lane], k, col + parts.right_row, full,
           parts.down_column, parts.right_blocks);
    } else {
      for (int chunk = parts.row_rank; chunk < Shape::kWidth / 64; chunk += parts.down_column) {
        copy(right + chunk * 64 * kTurn * 2, &args.right[lane], col + chunk * 64, k, full, parts.down_column,
             parts.right_blocks);
      }
    }
  }

  // A stage for results, with what they are made of.
  __device__ static void lend(const Arguments<Epilogue>& args, const Ring& ring, int stage, int row,
                              int col) {
    std::uint64_t* const full = ring.full(stage);
    if constexpr (Epilogue::kLoads) {
      barrier_expect(full, 2 * Shape::kBoxBytes);
      for (int i = 0; i < 2 * kGroups; ++i) {
        const int box = i / kGroups, half = i % kGroups;
        load_tile(ring.box(stage, box) + half * Shape::kHalfBoxBytes, &args.source[box], col, row + half * 64,
                  full, Keep::normal);
      }
    } else {
      barrier_arrive(full);
    }
  }

  __device__ static void produce(const Arguments<Epilogue>& args, const Ring& ring, const Walk& walk) {
    const Parts parts(args.cluster, walk);
    RingPlace at;
    for (int tile = walk.first(); tile < walk.total(); tile += walk.step()) {
      const TilePlace place = walk.template place<kColumns>(tile);
      const int row = static_cast<int>(place.row), col = static_cast<int>(place.col);
      for (int lane = 0; lane < kLanes; ++lane) {
        const LeftRows rows(args, place, lane);
        int begin = 0;
        for (int i = 0; i < args.leaves.count; ++i) {
          const int length = args.leaves.step[i].length();
          for (int k = 0; k < length; k += kTurn) {
            barrier_wait(ring.empty(at.stage), at.phase ^ 1u);
            load(args, ring, parts, rows, at.stage, lane, begin + k, row, col);
            at.advance(kStages);
          }
          begin += length;
        }
      }
      if (!args.staged) continue;
      const int stages = args.epilogue.template chunk_stages<Shape>();
      for (int i = 0; i < kChunks * stages; ++i) {
        barrier_wait(ring.empty(at.stage), at.phase ^ 1u);
        lend(args, ring, at.stage, row, col + i / stages * Shape::kBoxColumns);
        at.advance(kStages);
      }
    }
  }

  // One leaf: acc goes on, ascending in k.
  __device__ static void contract(const Ring& ring, RingPlace& at, int length, std::uint64_t left,
                                  std::uint64_t right, int cluster, float (&acc)[kRegisters]) {
    using Step = Wgmma<Shape::kWidth, is_transposed(kLeft), is_transposed(kRight)>;
    constexpr std::uint64_t kLeftStep = k16_bytes(kLeft) >> 4, kRightStep = k16_bytes(kRight) >> 4;
    const auto at_stage = [&](std::uint64_t base, int bytes) {
      return base + static_cast<std::uint64_t>(at.stage * (bytes >> 4));
    };
    pin(acc);
    // One turn is in the tensor cores while the next is issued: both warpgroups would else pause together.
    const int rest = length % kTurn;
    int before = -1;
#pragma unroll 1
    for (int k = kTurn; k <= length; k += kTurn) {
      barrier_wait(ring.full(at.stage), at.phase);
      const std::uint64_t a = at_stage(left, Shape::kLeftBytes), b = at_stage(right, Shape::kRightBytes);
      wgmma_fence();
#pragma unroll
      for (int s = 0; s < kTurn / 16; ++s) Step::step(acc, a + s * kLeftStep, b + s * kRightStep);
      wgmma_commit();
      wgmma_wait<1>();
      if (before >= 0) ring.release(before, cluster);
      before = at.stage;
      at.advance(kStages);
    }
    wgmma_wait<0>();
    pin(acc);
    if (before >= 0) ring.release(before, cluster);
    if (rest == 0) return;
    // The leaf ends inside this stage: what follows there belongs to the next leaf, or is +0.
    barrier_wait(ring.full(at.stage), at.phase);
#pragma unroll 1
    for (int s = 0; s * 16 < rest; ++s) {
      wgmma_fence();
      Step::step(acc, at_stage(left, Shape::kLeftBytes) + s * kLeftStep,
                 at_stage(right, Shape::kRightBytes) + s * kRightStep);
      wgmma_commit();
      wgmma_wait<0>();
      pin(acc);
    }
    ring.release(at.stage, cluster);
    at.advance(kStages);
  }

  __device__ static void consume(const Arguments<Epilogue>& args, const Ring& ring, const Walk& walk) {
    const int group = static_cast<int>(threadIdx.x) / 128 - 1, cluster = walk.size;
    const std::uint64_t left =
        tile_descriptor<kLeft>(ring.left_begin + group * 64 * kTurn * 2, 64 * kTurn * 2);
    const std::uint64_t right = tile_descriptor<kRight>(ring.right_begin, 64 * kTurn * 2);
    const SigmaCache cache(ring.sigma);
    RingPlace at;
    const Outlet<Shape> out{ring, group, cluster, args.epilogue.template chunk_stages<Shape>()};
    using Pending = TilePending<kRegisters, kNear>;
    float4* const pending_begin = reinterpret_cast<float4*>(args.pending) +
                                  static_cast<std::int64_t>(blockIdx.x) * args.levels * Pending::kLevel +
                                  (threadIdx.x - 128);
    for (int tile = walk.first(); tile < walk.total(); tile += walk.step()) {
      Pending pending{pending_begin};
      float acc[kRegisters];
      for (int lane = 0; lane < kLanes; ++lane) {
        int node = 0;
#pragma unroll 1
        for (int i = 0; i < args.leaves.count; ++i) {
          const LeafStep leaf = args.leaves.step[i];
#pragma unroll
          for (float& value : acc) value = 0.0f;
          if constexpr (Epilogue::kCarries) {
            if (i == 0 && args.epilogue.carried.resumes)
              args.epilogue.resume(acc, place_of(walk, tile, group));
          }
          contract(ring, at, leaf.length(), left, right, cluster, acc);
          if constexpr (Epilogue::kCarries) {
            if (i + 1 == args.leaves.count && args.epilogue.carried.stays_open) {
              args.epilogue.leave_open(acc, place_of(walk, tile, group));
              break;
            }
          }
          if (args.bf16_nodes) {
#pragma unroll
            for (float& value : acc) value = numerics::rounded_bf16(value);
          }
#pragma unroll 1
          for (int merge = 0; merge < leaf.merges(); ++merge) {
            if (args.bf16_nodes) {
              pending.pop(acc,
                          [](float lower, float upper) { return numerics::rounded_bf16(lower + upper); });
            } else {
              pending.pop(acc, [](float lower, float upper) { return lower + upper; });
            }
          }
          if (!leaf.emits() || lane + 1 < kLanes) {
            pending.push(acc, i + 1 < args.leaves.count && args.leaves.step[i + 1].merges() > 0);
            continue;
          }
          if constexpr (kLanes == 2) {
            if (args.lanes == Precision::bf16) {
              pending.pop(acc, [](float gate, float up) {
                return numerics::rounded_bf16(gate) + numerics::rounded_bf16(up);
              });
            } else {
              pending.pop(acc, [](float gate, float up) { return gate + up; });
            }
          }
          if (args.staged) {
            args.epilogue.template stage<Shape>(acc, out, at, cache);
          } else {
            args.epilogue.store(acc, place_of(walk, tile, group), node++);
          }
        }
      }
    }
  }

  __device__ static TilePlace place_of(const Walk& walk, int tile, int group) {
    TilePlace place = walk.template place<kColumns>(tile);
    place.row += group * 64;
    return place;
  }

  // The warp that sends a warpgroup's results off.
  __device__ static void send(const Arguments<Epilogue>& args, const Ring& ring, const Walk& walk,
                              int group) {
    const Outlet<Shape> out{ring, group, walk.size, args.epilogue.template chunk_stages<Shape>()};
    int turns = 0;
    for (int i = 0; i < args.leaves.count; ++i) turns += (args.leaves.step[i].length() + kTurn - 1) / kTurn;
    RingPlace at;
    std::uint32_t phases = 0;
    for (int tile = walk.first(); tile < walk.total(); tile += walk.step()) {
      const TilePlace place = place_of(walk, tile, group);
      at.stage = (at.stage + kLanes * turns) % kStages;
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        out.dispatch(at, phases,
                     [&](int first) { args.epilogue.send(args.result, place, out, chunk, first); });
      }
    }
  }

  __device__ static void run(const Arguments<Epilogue>& args, unsigned char* memory) {
    const Ring ring(memory);
    const Walk walk(args);
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        barrier_init(ring.full(stage), 1);
        barrier_init(ring.empty(stage), kGroups * 4 * walk.size);
        for (int group = 0; group < kGroups; ++group) barrier_init(ring.written(stage, group), 4);
      }
      barrier_init_fence();
      for (int i = 0; i < 2; ++i) {
        prefetch_map(&args.left[i]);
        prefetch_map(&args.left_end[i]);
        prefetch_map(&args.right[i]);
      }
      if (args.staged) prefetch_map(&args.result[0]);
    }
    if constexpr (Epilogue::kSigma) SigmaCache::fill(ring.sigma, args.epilogue.sigma, kThreads);
    __syncthreads();
    cluster_sync();
    wait_for_kernels_before();
    if (threadIdx.x < 128) {
      lower_registers<kProducerRegisters>();
      const int warp = static_cast<int>(threadIdx.x) / 32;
      if (threadIdx.x == 0) {
        produce(args, ring, walk);
        let_next_kernel_begin();
      } else if (warp >= 1 && warp <= kGroups && args.staged) {
        send(args, ring, walk, warp - 1);
      }
    } else {
      raise_registers<kConsumerRegisters>();
      consume(args, ring, walk);
    }
    __syncwarp();
    cluster_sync();  // nobody leaves while others may still write to it
  }
};

template <class Epilogue, class Shape, int kLanes, TileLayout kLeft, TileLayout kRight>
__global__ void __launch_bounds__(kThreads, 1) tile_kernel(const __grid_constant__ Arguments<Epilogue> args) {
  extern __shared__ unsigned char memory[];
  TileKernel<Epilogue, Shape, kLanes, kLeft, kRight>::run(args, memory);
}

// bf16 matrices that leave and come through the ring, as operands whose k are the columns; none if results
// are written element by element.
struct Staged {
  int count = 0;
  Operand result[3] = {};
  Operand source[2] = {};
};
inline bool can_be_staged(const Operand& matrix, std::int64_t cols) {
  // The copy engine writes sixteen bytes or none at the end of a row.
  return matrix.data == nullptr || (cols % 8 == 0 && is_mappable(matrix, cols));
}

template <const auto& kWidths, class Epilogue, int kLanes, TileLayout kLeft, TileLayout kRight>
void prepare_kernels() {
  for_each_built<kWidths>([&]<int kWidth>() {
    allow_shared_memory(tile_kernel<Epilogue, Shape<kWidth>, kLanes, kLeft, kRight>,
                        Ring<Shape<kWidth>>::shared_bytes(Epilogue::kSigma));
  });
}

template <class Epilogue, class Shape, int kLanes, TileLayout kLeft, TileLayout kRight>
void launch_shape(const TileProblem& problem, const Epilogue& epilogue, const Staged& staged,
                  const ClusterShape& cluster, const TileResources& resources) {
  constexpr bool kDual = Epilogue::kParts == 2;
  constexpr int kColumns = kDual ? Shape::kWidth / 2 : Shape::kWidth;
  Arguments<Epilogue> args{};
  // A short axis: no steps are made beyond its end.
  const int turn = static_cast<int>(std::min<std::int64_t>(kTurn, groups_of(problem.k, 16) * 16));
  const int left_rows = kLeft == TileLayout::k_major ? kRows / cluster.cols : turn;
  const int left_end = static_cast<int>(problem.left[0].outer % kRows);  // 0: there is no such tile
  const int right_rows =
      kRight == TileLayout::k_major ? (kDual ? kColumns : Shape::kWidth / cluster.rows) : turn;
  const int left_boxes = kLeft == TileLayout::k_major ? cluster.cols : kRows / 64;
  const int right_boxes = kRight == TileLayout::k_major ? (kDual ? 2 : cluster.rows) : Shape::kWidth / 64;
  args.left_bytes = left_rows * left_boxes * kTurn * 2;
  args.left_end_bytes = left_end * kTurn * 2;
  args.right_bytes = right_rows * right_boxes * kTurn * 2;
  for (int i = 0; i < 2; ++i) {
    const Operand& left = problem.left[kLanes == 2 ? i : 0];
    const Operand& right = problem.right[kLanes == 2 || kDual ? i : 0];
    args.left[i] = make_tensor_map(left, problem.k, 64, left_rows);
    args.left_end[i] = make_tensor_map(left, problem.k, 64, left_end > 0 ? left_end : left_rows);
    args.right[i] = make_tensor_map(right, problem.k, 64, right_rows);
  }
  args.leaves = problem.leaves->list<ShortLeafList>();
  args.rows = problem.left[0].outer;
  args.cols = problem.right[0].outer;
  args.cluster = cluster;
  args.row_groups = groups_of(args.rows, kRows * cluster.rows);
  args.col_groups = groups_of(args.cols, kColumns * cluster.cols);
  args.pending = resources.pending;
  args.levels = resources.levels;
  args.bf16_nodes = problem.bf16_nodes;
  args.lanes = problem.lanes_precision;
  args.epilogue = epilogue;
  args.staged = staged.count > 0;
  for (int i = 0; i < 2 && args.staged; ++i) args.staged = can_be_staged(staged.source[i], args.cols);
  for (int i = 0; i < staged.count && args.staged; ++i)
    args.staged = can_be_staged(staged.result[i], args.cols);
  for (int i = 0; i < staged.count && args.staged; ++i) {
    args.result[i] = make_tensor_map(staged.result[i], args.cols, Shape::kBoxColumns, 64);
  }
  for (int i = 0; i < 2 && args.staged && Epilogue::kLoads; ++i) {
    args.source[i] = make_tensor_map(staged.source[i], args.cols, Shape::kBoxColumns, 64);
  }
  const int size = cluster.rows * cluster.cols;
  const int clusters = std::min(args.row_groups * args.col_groups, resources.device.blocks(size) / size);
  LaunchShape shape{clusters * size, kThreads, Ring<Shape>::shared_bytes(Epilogue::kSigma), size};
  shape.early = resources.early;
  launch(tile_kernel<Epilogue, Shape, kLanes, kLeft, kRight>, shape, resources.stream, "contraction in tiles",
         args);
}

template <const auto& kWidths, class Epilogue, int kLanes, TileLayout kLeft, TileLayout kRight>
void launch_tiles(const TileProblem& problem, const Epilogue& epilogue, const Staged& staged,
                  const TileTuning& tuning, const TileResources& resources) {
  const bool launched = any_built<kWidths>([&]<int kWidth>() {
    if (tuning.width != kWidth) return false;
    launch_shape<Epilogue, Shape<kWidth>, kLanes, kLeft, kRight>(problem, epilogue, staged, tuning.cluster,
                                                                 resources);
    return true;
  });
  if (!launched)
    throw Error(ErrorCode::internal,
                "no kernel is built for tiles of " + std::to_string(tuning.width) + " columns");
}

}  // namespace samebits::engine::cuda::tiles
