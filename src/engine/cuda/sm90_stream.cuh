// The kernel of sm90_stream.hpp. One thread feeds a ring of weight tiles, and of token tiles that the blocks
// of a cluster load in parts for each other; one or two warpgroups contract 64 rows of the weights each. Rows
// of a 64-row step beyond the block's own are whatever lies there: they are never stored.
#pragma once

#include "engine/cuda/hopper.cuh"
#include "engine/cuda/launch.hpp"
#include "engine/cuda/nodes.cuh"
#include "engine/cuda/sm90_stream.hpp"
#include "engine/cuda/tensor_map.hpp"
#include "engine/cuda/wgmma.cuh"
#include "numerics/swiglu.hpp"

namespace samebits::engine::cuda::stream {

inline constexpr int kTurn = 64;  // k of one stage of the ring
inline constexpr int kMostStages = 16;
inline constexpr int kRowBytes = kTurn * 2;

template <class Epilogue>
struct Arguments {
  CUtensorMap weight[2], token[2];
  ShortLeafList leaves;
  std::int64_t rows;  // of the weights
  int tokens;
  int units;      // blocks' worth of rows
  int unit_rows;  // of each weight matrix
  int stages;
  float* pending;
  int levels;
  bool bf16_nodes;
  Precision lanes;
  Epilogue epilogue;
};

// Where things lie in shared memory: all weight stages, all token stages, barriers. The weights come first,
// so that a 64-row step which reads beyond its stage reads the ring.
struct RingLayout {
  int weight_bytes, token_bytes, stages, slack;
  constexpr int tokens_at() const { return stages * weight_bytes; }
  constexpr int barriers_at() const {
    return tokens_at() + (stages * token_bytes > slack ? stages * token_bytes : slack);
  }
  constexpr int bytes() const { return 1024 + barriers_at() + 2 * 8 * kMostStages; }
};
SAMEBITS_HD constexpr RingLayout ring_layout(int parts, int unit_rows, int tokens, int stages) {
  const int reach = (unit_rows + 63) / 64 * 64;
  return {parts * unit_rows * kRowBytes, tokens * kRowBytes, stages, (reach - unit_rows) * kRowBytes};
}

// The weights' tile: k-major rows, or 32 neighbours of the outer index along each k.
template <class Epilogue, int kTokens, int kGroups, int kLanes, TileLayout kWeight>
struct StreamKernel {
  static constexpr int kParts = Epilogue::kParts;
  static constexpr int kRegisters = kTokens / 2;
  static constexpr int kConsumers = kGroups * 128;
  using Step = Wgmma<kTokens, is_transposed(kWeight), false>;
  using Values = float[kParts][kRegisters];

  struct Ring {
    RingLayout layout;
    unsigned char *weight, *token;
    std::uint64_t *full, *empty;
  };

  __device__ static Ring ring_of(const Arguments<Epilogue>& args, unsigned char* memory) {
    const RingLayout layout = ring_layout(kParts, args.unit_rows, kTokens, args.stages);
    unsigned char* const begin = memory + (1024 - (shared_address(memory) & 1023)) % 1024;
    auto* const barriers = reinterpret_cast<std::uint64_t*>(begin + layout.barriers_at());
    return {layout, begin, begin + layout.tokens_at(), barriers, barriers + kMostStages};
  }

  struct Turn {  // of the producer: which stage, which k, which rows
    int lane, k, row;
  };

  __device__ static void load_weights(const Arguments<Epilogue>& args, const Ring& ring, int stage,
                                      const Turn& turn) {
    std::uint64_t* const full = &ring.full[stage];
    barrier_expect(full, static_cast<std::uint32_t>(ring.layout.weight_bytes + ring.layout.token_bytes));
    unsigned char* const to = ring.weight + stage * ring.layout.weight_bytes;
    if constexpr (kWeight == TileLayout::k_major) {
      for (int part = 0; part < kParts; ++part) {
        load_tile(to + part * args.unit_rows * kRowBytes, &args.weight[kParts == 2 ? part : turn.lane],
                  turn.k, turn.row, full, Keep::briefly);
      }
    } else {
      for (int row = 0; row < args.unit_rows; row += 32) {
        load_tile(to + row * kRowBytes, &args.weight[turn.lane], turn.row + row, turn.k, full, Keep::briefly);
      }
    }
  }

  __device__ static void load_tokens(const Arguments<Epilogue>& args, const Ring& ring, int stage,
                                     const Turn& turn, int rank, int cluster) {
    unsigned char* const to = ring.token + stage * ring.layout.token_bytes;
    if (cluster == 1) {
      load_tile(to, &args.token[turn.lane], turn.k, 0, &ring.full[stage], Keep::long_);
    } else {
      const int rows = kTokens / cluster;
      load_tile_for_all(to + rank * rows * kRowBytes, &args.token[turn.lane], turn.k, rank * rows,
                        &ring.full[stage], static_cast<std::uint16_t>((1 << cluster) - 1), Keep::long_);
    }
  }

  // Every turn of this block in order.
  template <class Body>
  __device__ static void for_each_turn(const Arguments<Epilogue>& args, int rank, int cluster,
                                       const Body& body) {
    for (int unit = static_cast<int>(blockIdx.x) - rank; unit < args.units;
         unit += static_cast<int>(gridDim.x)) {
      for (int lane = 0; lane < kLanes; ++lane) {
        int begin = 0;
        for (int i = 0; i < args.leaves.count; ++i) {
          const int length = args.leaves.step[i].length();
          for (int k = 0; k < length; k += kTurn) body(Turn{lane, begin + k, (unit + rank) * args.unit_rows});
          begin += length;
        }
      }
    }
  }

  __device__ static void produce(const Arguments<Epilogue>& args, const Ring& ring, int rank, int cluster) {
    // The weights are nobody's result: they are on their way before the kernels in front have ended.
    int turns = 0;
    for_each_turn(args, rank, cluster, [&](const Turn& turn) {
      if (turns < args.stages) load_weights(args, ring, turns, turn);
      ++turns;
    });
    wait_for_kernels_before();
    RingPlace at;
    int index = 0;
    for_each_turn(args, rank, cluster, [&](const Turn& turn) {
      if (index >= args.stages) {
        barrier_wait(&ring.empty[at.stage], at.phase ^ 1u);
        load_weights(args, ring, at.stage, turn);
      }
      load_tokens(args, ring, at.stage, turn, rank, cluster);
      at.advance(args.stages);
      if (++index == turns) let_next_kernel_begin();
    });
  }

  __device__ static void release(const Ring& ring, int stage, int cluster) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < cluster) barrier_arrive_at(&ring.empty[stage], static_cast<std::uint32_t>(lane));
  }

  __device__ static void steps(const Arguments<Epilogue>& args, const Ring& ring, int stage, int group, int s,
                               Values& acc) {
    constexpr std::uint64_t kWeightStep = k16_bytes(kWeight) >> 4,
                            kTokenStep = k16_bytes(TileLayout::k_major) >> 4;
    const std::uint64_t token =
        tile_descriptor<TileLayout::k_major>(ring.token + stage * ring.layout.token_bytes, 0);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const unsigned char* const rows =
          ring.weight + stage * ring.layout.weight_bytes + (part * args.unit_rows + group * 64) * kRowBytes;
      const std::uint64_t weight = tile_descriptor<kWeight>(rows, 32 * kRowBytes);
      Step::step(acc[part], weight + s * kWeightStep, token + s * kTokenStep);
    }
  }

  // One leaf of every part: acc from +0, ascending in k.
  __device__ static void contract(const Arguments<Epilogue>& args, const Ring& ring, RingPlace& at,
                                  int length, int group, int cluster, Values& acc) {
#pragma unroll
    for (auto& part : acc) {
#pragma unroll
      for (float& value : part) value = 0.0f;
      pin(part);
    }
    const int rest = length % kTurn;
    int before = -1;
#pragma unroll 1
    for (int k = kTurn; k <= length; k += kTurn) {
      barrier_wait(&ring.full[at.stage], at.phase);
      wgmma_fence();
#pragma unroll
      for (int s = 0; s < kTurn / 16; ++s) steps(args, ring, at.stage, group, s, acc);
      wgmma_commit();
      wgmma_wait<1>();  // the turn before
      if (before >= 0) release(ring, before, cluster);
      before = at.stage;
      at.advance(args.stages);
    }
    wgmma_wait<0>();
#pragma unroll
    for (auto& part : acc) pin(part);
    if (before >= 0) release(ring, before, cluster);
    if (rest == 0) return;
    // The leaf ends inside this stage: what follows there belongs to the next leaf, or is +0.
    barrier_wait(&ring.full[at.stage], at.phase);
#pragma unroll 1
    for (int s = 0; s * 16 < rest; ++s) {
      wgmma_fence();
      steps(args, ring, at.stage, group, s, acc);
      wgmma_commit();
      wgmma_wait<0>();
#pragma unroll
      for (auto& part : acc) pin(part);
    }
    release(ring, at.stage, cluster);
    at.advance(args.stages);
  }

  // A thread's pending nodes, in a scratch of the block's own.
  struct Stack {
    float* data;  // this thread's of level 0
    int height = 0;
    static constexpr int kLevel = kParts * kRegisters * kConsumers;

    __device__ void push(const Values& acc) {
      float* const to = data + height++ * kLevel;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int i = 0; i < kRegisters; ++i) to[(part * kRegisters + i) * kConsumers] = acc[part][i];
      }
    }
    template <class Combine>
    __device__ void pop(Values& acc, const Combine& combine) {
      const float* const from = data + --height * kLevel;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int i = 0; i < kRegisters; ++i) {
          acc[part][i] = combine(from[(part * kRegisters + i) * kConsumers], acc[part][i]);
        }
      }
    }
  };

  __device__ static void store(const Arguments<Epilogue>& args, const Values& acc, int unit, int group,
                               int node) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) {
      const int token = i / 4 * 8 + lane % 4 * 2 + i % 2,
                row = group * 64 + warp * 16 + lane / 4 + i / 2 % 2 * 8;
      const std::int64_t at = std::int64_t{unit} * args.unit_rows + row;
      if (token >= args.tokens || row >= args.unit_rows || at >= args.rows) continue;
      if constexpr (kParts == 2) {
        args.epilogue.store(token, at, acc[0][i], acc[1][i]);
      } else {
        args.epilogue.store(token, at, acc[0][i], node);
      }
    }
  }

  __device__ static void consume(const Arguments<Epilogue>& args, const Ring& ring, int rank, int cluster) {
    wait_for_kernels_before();
    const int group = static_cast<int>(threadIdx.x) / 128;
    RingPlace at;
#pragma unroll 1
    for (int unit = static_cast<int>(blockIdx.x) - rank; unit < args.units;
         unit += static_cast<int>(gridDim.x)) {
      Stack pending{args.pending + static_cast<std::int64_t>(blockIdx.x) * args.levels * Stack::kLevel +
                    threadIdx.x};
      Values acc;
#pragma unroll 1
      for (int lane = 0; lane < kLanes; ++lane) {
        int node = 0;
#pragma unroll 1
        for (int i = 0; i < args.leaves.count; ++i) {
          const LeafStep leaf = args.leaves.step[i];
          contract(args, ring, at, leaf.length(), group, cluster, acc);
          if (args.bf16_nodes) {
#pragma unroll
            for (auto& part : acc) {
#pragma unroll
              for (float& value : part) value = numerics::rounded_bf16(value);
            }
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
          store(args, acc, unit + rank, group, node++);
        }
      }
    }
  }

  __device__ static void run(const Arguments<Epilogue>& args, unsigned char* memory) {
    const Ring ring = ring_of(args, memory);
    const int rank = static_cast<int>(cluster_rank()), cluster = static_cast<int>(cluster_size());
    if (threadIdx.x == kConsumers) {
      for (int i = 0; i < 2; ++i) {
        prefetch_map(&args.weight[i]);
        prefetch_map(&args.token[i]);
      }
      for (int stage = 0; stage < args.stages; ++stage) {
        barrier_init(&ring.full[stage], 1);
        barrier_init(&ring.empty[stage], kGroups * 4 * cluster);
      }
      barrier_init_fence();
    }
    __syncthreads();
    if (cluster > 1) cluster_sync();
    if (threadIdx.x < kConsumers) {
      consume(args, ring, rank, cluster);
    } else if (threadIdx.x == kConsumers) {
      produce(args, ring, rank, cluster);
    }
    __syncwarp();
    if (cluster > 1) cluster_sync();  // nobody leaves while others may still write to it
  }
};

template <class Epilogue, int kTokens, int kGroups, int kLanes, TileLayout kWeight>
__global__ void __launch_bounds__(kGroups * 128 + 32, 1)
    stream_kernel(const __grid_constant__ Arguments<Epilogue> args) {
  extern __shared__ unsigned char memory[];
  StreamKernel<Epilogue, kTokens, kGroups, kLanes, kWeight>::run(args, memory);
}

inline constexpr int kMostShared = 227 * 1024;

// Calls body.template operator()<tokens, groups>() for the instance that a tuning names.
template <class Body>
void for_instance(int tokens, int groups, const Body& body) {
  const auto with_groups = [&](auto count) {
    if (groups == 1) {
      body.template operator()<decltype(count)::value, 1>();
    } else {
      body.template operator()<decltype(count)::value, 2>();
    }
  };
  switch (tokens) {
    case 8:
      return with_groups(std::integral_constant<int, 8>{});
    case 16:
      return with_groups(std::integral_constant<int, 16>{});
    case 32:
      return with_groups(std::integral_constant<int, 32>{});
    case 64:
      return with_groups(std::integral_constant<int, 64>{});
    default:
      return with_groups(std::integral_constant<int, 128>{});
  }
}

template <class Epilogue, int kLanes, TileLayout kWeight>
void prepare_kernels() {
  for (const int tokens : {8, 16, 32, 64, 128}) {
    for (const int groups : {1, 2}) {
      for_instance(tokens, groups, [&]<int kTokens, int kGroups>() {
        allow_shared_memory(stream_kernel<Epilogue, kTokens, kGroups, kLanes, kWeight>, kMostShared);
      });
    }
  }
}

template <class Epilogue, int kLanes, TileLayout kWeight>
void launch_stream(const StreamProblem& problem, const Epilogue& epilogue, const StreamTuning& tuning,
                   const StreamResources& resources) {
  constexpr int kParts = Epilogue::kParts;
  Arguments<Epilogue> args{};
  for (int i = 0; i < 2; ++i) {
    const Operand& weight = problem.weight[kLanes == 2 || kParts == 2 ? i : 0];
    const bool k_major = kWeight == TileLayout::k_major;
    args.weight[i] = make_tensor_map(weight, problem.k, k_major ? 64 : 32, k_major ? tuning.rows : kTurn);
    args.token[i] =
        make_tensor_map(problem.token[kLanes == 2 ? i : 0], problem.k, 64, tuning.tokens / tuning.cluster);
  }
  args.leaves = problem.leaves->list<ShortLeafList>();
  args.rows = problem.weight[0].outer;
  args.tokens = static_cast<int>(problem.token[0].outer);
  args.unit_rows = tuning.rows;
  args.units = static_cast<int>((args.rows + tuning.rows - 1) / tuning.rows);
  args.stages = tuning.stages;
  args.pending = resources.pending;
  args.levels = resources.levels;
  args.bf16_nodes = problem.bf16_nodes;
  args.lanes = problem.lanes_precision;
  args.epilogue = epilogue;
  const int resident = resources.device.blocks[tuning.cluster / 2];
  const int blocks = std::min((args.units + tuning.cluster - 1) / tuning.cluster * tuning.cluster, resident);
  const int groups = (tuning.rows + 63) / 64;
  const int shared = ring_layout(kParts, tuning.rows, tuning.tokens, tuning.stages).bytes();
  for_instance(tuning.tokens, groups, [&]<int kTokens, int kGroups>() {
    launch(stream_kernel<Epilogue, kTokens, kGroups, kLanes, kWeight>,
           {blocks, kGroups * 128 + 32, shared, tuning.cluster, resources.early}, resources.stream,
           "contraction of few tokens", args);
  });
}

}  // namespace samebits::engine::cuda::stream
