// The kernel of stream.hpp. One thread feeds a ring of weight tiles, and of token tiles that the blocks
// of a cluster load in parts for each other; twelve warps contract 16 rows of the weights each, by some of
// the tokens, with mma.sync: its chain of steps is the shortest, and at few tokens the chain is what a block
// waits for.
#pragma once

#include "engine/cuda/launch.hpp"
#include "engine/cuda/nodes.cuh"
#include "engine/cuda/sm90/mma.cuh"
#include "engine/cuda/sm90/stream.hpp"
#include "engine/cuda/sm90/stream_epilogue.cuh"
#include "engine/cuda/sm90/stream_produce.cuh"
#include "engine/cuda/sm90/stream_ring.cuh"
#include "engine/cuda/sm90/tensor_map.hpp"

namespace samebits::engine::cuda::stream {

// A stage as kernels know it. `kWide`: many rows of weights a block, so that few warps share a row's tokens.
template <class Epilogue_, int kLanes_, bool kColumns_, bool kWide_>
struct Phase {
  using Epilogue = Epilogue_;
  static constexpr int kParts = Epilogue::kParts;
  static constexpr int kLanes = kLanes_;
  static constexpr bool kWide = kWide_;
  static constexpr bool kColumns = kColumns_;  // weights by columns: 32 neighbours along k
  static constexpr int splits(int tokens) {    // of the tokens among warps
    const int groups = tokens / 8;
    return kWide_ ? (groups >= 2 ? 2 : 1) : (groups >= 4 ? 4 : groups);
  }
  static constexpr int most_rows(int tokens) { return kConsumerWarps / splits(tokens) * 16; }
};
struct NoPhase {
  struct Epilogue {};
  static constexpr int kParts = 1, kLanes = 1;
};

template <class First, class Second>
struct Arguments {
  PhaseArguments<First> first;
  PhaseArguments<Second> second;
  int slots, slot_bytes;
  float* pending;  // null: in shared memory, behind the ring
  int levels;
  bool bf16_nodes;
  Precision lanes;
  unsigned* meeting;
};

template <class Phase, int kTokens>
struct PhaseKernel {
  using Args = PhaseArguments<Phase>;
  static constexpr int kSplits = Phase::splits(kTokens);
  static constexpr int kTiles = kTokens / 8 / kSplits;  // of eight tokens, a warp
  static constexpr int kValues = Phase::kParts * kTiles * 4;
  static_assert(kValues <= kMostValues);
  using Values = float[Phase::kParts][kTiles][4];

  // Where this lane finds its rows of the fragments in a slot, at turn 0 and step 0.
  static constexpr int kTokenLoads = kTiles == 1 ? 1 : kTiles / 2;
  struct LanePlaces {
    std::uint32_t weight[Phase::kParts], token[kTokenLoads];
    std::uint32_t weight_turn, token_turn;  // bytes from turn to turn
    int weight_piece, token_piece;          // of the swizzle, where it changes with the step

    __device__ LanePlaces(const Args& args, int row0, int token0, int cluster) {
      const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, line = lane % 8;
#pragma unroll
      for (int part = 0; part < Phase::kParts; ++part) {
        weight[part] = static_cast<std::uint32_t>(
            Phase::kColumns ? row0 / 32 * args.chunk_bytes() + (matrix / 2 * 8 + line) * 64
                            : part * args.part_bytes() + (row0 + lane % 16) * kRowBytes);
        if (Phase::kColumns) weight[part] += column_piece(line, row0 % 32 / 8 + matrix % 2);
      }
      weight_turn = static_cast<std::uint32_t>(Phase::kColumns ? kTurn * 64 : args.unit_rows * kRowBytes);
      weight_piece = lane / 16;
      const int rows = kTokens / cluster;
#pragma unroll
      for (int load = 0; load < kTokenLoads; ++load) {
        const int row = token0 + (kTiles == 1 ? 0 : load * 16 + matrix / 2 * 8) + line;
        token[load] = static_cast<std::uint32_t>(
            args.tokens_at() + row / rows * args.per_slot * rows * kRowBytes + row % rows * kRowBytes);
      }
      token_turn = static_cast<std::uint32_t>(rows * kRowBytes);
      token_piece = kTiles == 1 ? matrix : matrix % 2;
    }
  };

  // What a warp multiplies in `kSteps` k16 steps.
  template <int kSteps>
  struct Fragments {
    std::uint32_t a[kSteps][Phase::kParts][4], b[kSteps][kTiles][2];

    __device__ void load(std::uint32_t slot, int turn, const LanePlaces& places, int step0) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      const std::uint32_t weights = slot + static_cast<std::uint32_t>(turn) * places.weight_turn;
      const std::uint32_t tokens = slot + static_cast<std::uint32_t>(turn) * places.token_turn;
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int step = step0 + s;
#pragma unroll
        for (int part = 0; part < Phase::kParts; ++part) {
          const std::uint32_t at = weights + places.weight[part];
          if constexpr (Phase::kColumns) {
            load_matrices_transposed(a[s][part], at + static_cast<std::uint32_t>(step * 16 * 64));
          } else {
            load_matrices(a[s][part], at + k_major_piece(lane, step * 2 + places.weight_piece));
          }
        }
      }
      std::uint32_t four[4];
      if constexpr (kTiles == 1) {  // two steps of eight tokens at once
#pragma unroll
        for (int s = 0; s < kSteps; s += 2) {
          load_matrices(four,
                        tokens + places.token[0] + k_major_piece(lane, (step0 + s) * 2 + places.token_piece));
          b[s][0][0] = four[0], b[s][0][1] = four[1];
          b[s + 1][0][0] = four[2], b[s + 1][0][1] = four[3];
        }
      } else {  // sixteen tokens of a step at once
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
#pragma unroll
          for (int tile = 0; tile < kTiles; tile += 2) {
            load_matrices(four, tokens + places.token[tile / 2] +
                                    k_major_piece(lane, (step0 + s) * 2 + places.token_piece));
            b[s][tile][0] = four[0], b[s][tile][1] = four[1];
            b[s][tile + 1][0] = four[2], b[s][tile + 1][1] = four[3];
          }
        }
      }
    }
    // The first `count` steps: what follows belongs to the next leaf, or is +0.
    __device__ void multiply(Values& acc, int count = kSteps) const {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        if (s < count) multiply_step(acc, s);
      }
    }
    __device__ void multiply_step(Values& acc, int s) const {
#pragma unroll
      for (int part = 0; part < Phase::kParts; ++part) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
          mma_step(acc[part][tile], a[s][part], b[s][tile][0], b[s][tile][1]);
      }
    }
  };

  // The consumers' place in the ring.
  struct Reader {
    const Args& args;
    const Ring& ring;
    RingPlace& at;
    int cluster, left;  // turns of this block that are still to come
    int within = 0;     // turns of the slot

    __device__ std::uint32_t slot() const { return shared_address(ring.slot(at.stage)); }
    __device__ void wait() const { barrier_wait(&ring.full[at.stage], at.phase); }
    __device__ void release() {
      __syncwarp();
      const int lane = static_cast<int>(threadIdx.x) % 32;
      if (lane < cluster) barrier_arrive_at(&ring.empty[at.stage], static_cast<std::uint32_t>(lane));
      at.advance(ring.slots);
      within = 0;
    }
  };

  // How many steps are loaded at once: registers allow the more the fewer tokens a warp has.
  static constexpr int kSteps = Phase::kParts * kTiles <= 4 ? 4 : 2;

  // All turns of a whole slot, written out: with few tokens a warp has one chain of steps, and what stands
  // between them is what the block waits for.
  template <int kTurns>
  __device__ static void multiply_slot(std::uint32_t slot, const LanePlaces& places, Values& acc) {
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
#pragma unroll
      for (int step = 0; step < 4; step += kSteps) {
        Fragments<kSteps> fragments;
        fragments.load(slot, turn, places, step);
        fragments.multiply(acc);
      }
    }
  }

  // One leaf: acc from +0, ascending in k.
  __device__ static void contract(Reader& reader, int length, bool active, const LanePlaces& places,
                                  Values& acc) {
    for_each_value(acc, [](int, float& value) { value = 0.0f; });
    const Args& args = reader.args;
    if (args.whole) {
      const int slots = length / (kTurn * args.per_slot);
#pragma unroll 1
      for (int i = 0; i < slots; ++i) {
        reader.wait();
        if (active) {
          const std::uint32_t slot = reader.slot();
          switch (args.per_slot) {
            case 1:
              multiply_slot<1>(slot, places, acc);
              break;
            case 2:
              multiply_slot<2>(slot, places, acc);
              break;
            case 3:
              multiply_slot<3>(slot, places, acc);
              break;
            default:
              multiply_slot<4>(slot, places, acc);
              break;
          }
        }
        reader.release();
      }
      return;
    }
#pragma unroll 1
    for (int left = length; left > 0; left -= kTurn) {
      if (reader.within == 0) reader.wait();
      if (active) {
#pragma unroll 1
        for (int step = 0; step < 4; step += 2) {
          Fragments<2> fragments;
          fragments.load(reader.slot(), reader.within, places, step);
          fragments.multiply(acc, (left + 15) / 16 - step);
        }
      }
      --reader.left;
      if (++reader.within == args.per_slot || reader.left == 0) reader.release();
    }
  }

  struct Stack {
    float* data;  // this thread's of level 0
    int height = 0;
    __device__ void push(const Values& acc) {
      float* to = data + height++ * kValues * kConsumers;
      for_each_value(acc, [&](int i, float value) { to[i * kConsumers] = value; });
    }
    template <class Combine>
    __device__ void pop(Values& acc, const Combine& combine) {
      const float* const from = data + --height * kValues * kConsumers;
      for_each_value(acc, [&](int i, float& value) { value = combine(from[i * kConsumers], value); });
    }
  };

  template <class AnyValues, class Body>
  __device__ static void for_each_value(AnyValues& acc, const Body& body) {
#pragma unroll
    for (int part = 0; part < Phase::kParts; ++part) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int v = 0; v < 4; ++v) body((part * kTiles + tile) * 4 + v, acc[part][tile][v]);
      }
    }
  }

  __device__ static void store(const Args& args, const Values& acc, int unit, int row0, int token0,
                               int node) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        const int token = token0 + tile * 8 + lane % 4 * 2 + v % 2, row = row0 + lane / 4 + v / 2 * 8;
        const std::int64_t at = std::int64_t{unit} * args.unit_rows + row;
        if (token >= args.tokens || row >= args.unit_rows || at >= args.rows) continue;
        if constexpr (Phase::kParts == 2) {
          args.epilogue.store(token, at, acc[0][tile][v], acc[1][tile][v]);
        } else {
          args.epilogue.store(token, at, acc[0][tile][v], node);
        }
      }
    }
  }

  struct Rules {
    bool bf16_nodes;
    Precision lanes;
  };

  __device__ static void consume(const Args& args, const Ring& ring, RingPlace& at, int rank, int cluster,
                                 float* pending, const Rules& rules) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int row0 = warp / kSplits * 16, token0 = warp % kSplits * kTiles * 8;
    const bool active = row0 < args.unit_rows;
    const LanePlaces places(args, row0, token0, cluster);
    Stack stack{pending + threadIdx.x};
    Values acc;
    Reader reader{args, ring, at, cluster, TurnWalk<Phase>(args, rank).left};
#pragma unroll 1
    for (int unit = static_cast<int>(blockIdx.x) - rank; unit < args.units;
         unit += static_cast<int>(gridDim.x)) {
      int node = 0;
#pragma unroll 1
      for (int turn = 0; turn < Phase::kLanes * args.leaves.count; ++turn) {
        const bool last_lane = turn >= (Phase::kLanes - 1) * args.leaves.count;
        const LeafStep leaf = args.leaves.step[turn % args.leaves.count];
        contract(reader, leaf.length(), active, places, acc);
        if (!active) continue;
        if (rules.bf16_nodes)
          for_each_value(acc, [](int, float& value) { value = numerics::rounded_bf16(value); });
#pragma unroll 1
        for (int merge = 0; merge < leaf.merges(); ++merge) {
          stack.pop(acc, [&](float lower, float upper) { return as_node(rules.bf16_nodes, lower + upper); });
        }
        if (!leaf.emits() || !last_lane) {
          stack.push(acc);
          continue;
        }
        if constexpr (Phase::kLanes == 2) {
          stack.pop(acc, [&](float gate, float up) {
            return rules.lanes == Precision::bf16 ? numerics::rounded_bf16(gate) + numerics::rounded_bf16(up)
                                                  : gate + up;
          });
        }
        store(args, acc, unit + rank, row0, token0, node++);
      }
    }
  }
};

template <class First, class Second, int kTokens>
__global__ void __launch_bounds__(kThreads, 1)
    stream_kernel(const __grid_constant__ Arguments<First, Second> args) {
  constexpr bool kTwo = !std::is_same_v<Second, NoPhase>;
  extern __shared__ unsigned char memory[];
  unsigned char* const begin = memory + (1024 - (shared_address(memory) & 1023)) % 1024;
  auto* const barriers = reinterpret_cast<std::uint64_t*>(begin + args.slots * args.slot_bytes);
  const Ring ring{begin, args.slot_bytes, args.slots, barriers, barriers + kMostSlots};
  const int rank = static_cast<int>(cluster_rank()), cluster = static_cast<int>(cluster_size());
  const bool produces = threadIdx.x == kConsumers;
  Meeting meeting{args.meeting, 0};
  if (produces) {
    for (int slot = 0; slot < args.slots; ++slot) {
      barrier_init(&ring.full[slot], 1);
      barrier_init(&ring.empty[slot], kConsumerWarps * cluster);
    }
    barrier_init_fence();
  }
  if constexpr (kTwo) meeting.before = Meeting::read(args.meeting + 1);
  __syncthreads();
  if (cluster > 1) cluster_sync();

  if (threadIdx.x < kConsumers) {
    float* pending = reinterpret_cast<float*>(barriers + 2 * kMostSlots);
    const bool in_shared = args.pending == nullptr;
    const auto pending_of = [&](int values) {
      return in_shared ? pending
                       : args.pending + std::int64_t{blockIdx.x} * args.levels * values * kConsumers;
    };
    RingPlace at;
    using FirstKernel = PhaseKernel<First, kTokens>;
    wait_for_kernels_before();
    FirstKernel::consume(args.first, ring, at, rank, cluster, pending_of(FirstKernel::kValues),
                         {args.bf16_nodes, args.lanes});
    if constexpr (kTwo) {
      using SecondKernel = PhaseKernel<Second, kTokens>;
      fence_for_copies();
      __threadfence();
      asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory");
      if (threadIdx.x == 0) meeting.arrive();
      SecondKernel::consume(args.second, ring, at, rank, cluster, pending_of(SecondKernel::kValues),
                            {args.bf16_nodes, args.lanes});
    }
  } else if (produces) {
    RingPlace at;
    Producer<First, kTokens>::produce(args.first, ring, at, rank, cluster,
                                      [](const auto&) { wait_for_kernels_before(); });
    if constexpr (kTwo) {
      Producer<Second, kTokens>::produce(args.second, ring, at, rank, cluster, [&](const auto& idle) {
        while (!meeting.is_over()) {
          if (!idle()) __nanosleep(20);
        }
        fence_for_copies();
      });
    }
    let_next_kernel_begin();
  }
  __syncwarp();
  if (cluster > 1) cluster_sync();  // nobody leaves while others may still write to it
}

}  // namespace samebits::engine::cuda::stream
