// The stream kernel.
#pragma once

#include "engine/cuda/fma/stream_activate.cuh"
#include "engine/cuda/fma/stream_chains.cuh"
#include "engine/cuda/fma/stream_ring.cuh"
#include "engine/cuda/nodes.cuh"

namespace samebits::engine::cuda::fma_leaf {

enum class StreamWeights { rows, columns, gate_up };

struct StreamArguments {
  CUtensorMap weight[2], x[2];
  int outer, tokens;
  Target target;
  std::int64_t lane_stride;
  int row_groups, token_groups, wideners, stages, segments, lanes;
  int boxes;          // copies that a stage's weights take
  int chain_threads;  // in whole warps
  int tile_bytes;     // of a k of the weights by columns
  int row_bytes;      // between a thread's rows
  bool early;
  LeafSegment segment[kMostSegments];
  StreamActivation activation;
};

// Most threads with chains, and of a block.
constexpr int stream_chain_threads(int results) { return results <= 4 ? 512 : results <= 32 ? 256 : 128; }
constexpr int stream_threads(int results) { return stream_chain_threads(results) + 32 * (1 + kMostWideners); }

// Warp 0 feeds the ring, the next `wideners` make x of every chunk f32, and the rest have the chains. A stage
// is `landed` when its bytes are there and `drained` when every thread with chains has done with it; a buffer
// of x is `ready` when it is widened.
template <int kTokens, int kRows, bool kBf16, StreamWeights kWeights>
__global__ void __launch_bounds__(stream_threads(kTokens* kRows), 1)
    stream(const __grid_constant__ StreamArguments args, const __grid_constant__ FmaLeafList leaves) {
  constexpr bool kColumns = kWeights == StreamWeights::columns, kGateUp = kWeights == StreamWeights::gate_up;
  constexpr int kCount = kTokens * kRows, kPitch = stream_x_pitch(kTokens);
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ std::uint64_t landed[kMostStages], drained[kMostStages], ready[kWideBuffers];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  const int tile = kRows * args.row_groups, half = tile / 2, x_tokens = kTokens * args.token_groups;
  const int stage_bytes = stream_stage_bytes(tile, x_tokens), weight_bytes = stream_weight_bytes(tile);
  float* const widened = reinterpret_cast<float*>(memory + args.stages * stage_bytes);

  int unit = static_cast<int>(blockIdx.x);
  const int lane = unit % args.lanes;
  unit /= args.lanes;
  const LeafSegment& segment = args.segment[unit % args.segments];
  const int row0 = unit / args.segments * (kGateUp ? half : tile);
  const int k0 = segment.k_begin & ~7, chunks = (segment.k_end - k0 + kStreamChunk - 1) / kStreamChunk;

  const int before_chains = 32 * (1 + args.wideners);
  if (thread == 0) {
    for (int s = 0; s < args.stages; ++s) {
      barrier_init(&landed[s], 1);
      barrier_init(&drained[s], args.chain_threads);
    }
    for (std::uint64_t& barrier : ready) barrier_init(&barrier, 32 * args.wideners);
    barrier_init_fence();
  }
  __syncthreads();
  let_next_kernel_begin();

  // A thread of the last warp that has no chains does as the last that has, and stores nothing.
  const int chains_of = args.token_groups * args.row_groups;
  const bool stores = thread - before_chains < chains_of;
  const int place = min(thread - before_chains, chains_of - 1);
  const int row_group = place % args.row_groups, token0 = place / args.row_groups * kTokens;
  NodeShare<kCount, kBf16> node;
  const std::uint32_t landed_at = shared_address(landed), drained_at = shared_address(drained),
                      ready_at = shared_address(ready);

  if (warp == 0) {
    // A stage's bytes are announced with its weights; what lies outside a matrix counts too, and arrives as
    // +0.
    const auto load_weights = [&](int chunk, int stage) {
      unsigned char* const to = memory + stage * stage_bytes;
      const int k = k0 + chunk * kStreamChunk, part = tile / args.boxes;
      barrier_expect(&landed[stage], static_cast<std::uint32_t>(weight_bytes + stream_x_bytes(x_tokens)));
      for (int box = 0; box < args.boxes; ++box) {
        unsigned char* const at = to + box * part * kStreamChunk * 2;
        if constexpr (kColumns) {
          load_tile(at, &args.weight[lane], row0, k, &landed[stage], Keep::briefly);
        } else {
          load_tile(at, &args.weight[kGateUp ? box : lane], k, row0 + (kGateUp ? 0 : box * part),
                    &landed[stage], Keep::briefly);
        }
      }
    };
    const auto load_x = [&](int chunk, int stage) {
      load_tile(memory + stage * stage_bytes + weight_bytes, &args.x[lane], k0 + chunk * kStreamChunk, 0,
                &landed[stage], Keep::normal);
    };
    if (thread == 0) {
      // Weights are older than the kernel in front; x is its result.
      const int first = min(args.stages, chunks);
      if (!args.early) wait_for_kernels_before();
      for (int c = 0; c < first; ++c) load_weights(c, c);
      if (args.early) wait_for_kernels_before();
      for (int c = 0; c < first; ++c) load_x(c, c);
      RingPlace place_of{0, 0};
      for (int c = first; c < chunks; ++c) {
        barrier_wait(drained_at + 8u * static_cast<unsigned>(place_of.stage), place_of.phase);
        load_weights(c, place_of.stage);
        load_x(c, place_of.stage);
        place_of.advance(args.stages);
      }
    }
  } else if (thread < before_chains) {
    Widening<kPitch> widening(thread - 32, before_chains - 32, x_tokens);
    RingPlace here{0, 0}, behind{0, 0};  // the chunk to widen, and the one whose buffer it takes
    int buffer = 0;
    for (int c = 0; c < chunks; ++c) {
      if (c >= kWideBuffers) {
        barrier_wait(drained_at + 8u * static_cast<unsigned>(behind.stage), behind.phase);
        behind.advance(args.stages);
      }
      barrier_wait(landed_at + 8u * static_cast<unsigned>(here.stage), here.phase);
      widening.run(memory + here.stage * stage_bytes + weight_bytes,
                   widened + buffer * kStreamChunk * kPitch);
      barrier_arrive(ready_at + 8u * static_cast<unsigned>(buffer));
      here.advance(args.stages);
      buffer = buffer + 1 == kWideBuffers ? 0 : buffer + 1;
    }
  } else {
    StreamChains<kTokens, kRows, kColumns> chains;
    chains.reset();
    chains.tile_bytes = args.tile_bytes;
    chains.row_bytes = args.row_bytes;
    StreamStack<kCount, kBf16> stack;
    stack.top = shared_address(widened + kWideBuffers * kStreamChunk * kPitch) +
                static_cast<std::uint32_t>((thread - before_chains) * stack.kWide * 4);
    stack.part_bytes = args.chain_threads * stack.kWide * 4;
    stack.level_bytes = stack.part_bytes * stack.kParts;

    const std::uint32_t my_weights =
        shared_address(memory) +
        static_cast<std::uint32_t>(kColumns ? row_group * kRows * 2
                                            : row_group * kStreamChunk * 2 + (row_group & 7) * 16);
    const std::uint32_t my_x = shared_address(widened + token0);

    // Steps are read two leaves ahead.
    const auto step_of = [&](int leaf) { return leaves.step[min(leaf, FmaLeafList::kMost - 1)]; };
    const int end_leaf = segment.first_leaf + segment.leaves;
    int leaf = segment.first_leaf, node_index = segment.first_node;
    LeafStep step = step_of(leaf), next_step = step_of(leaf + 1);
    int left = step.length();
    // Zero, but the compiler does not know: so, by rows, k is counted in a thread's own registers. In uniform
    // ones, which it would take, every leaf would wait for what is moved there and back. (By columns, where
    // addresses are multiples of k, they are the faster.)
    const int zero = kColumns ? 0 : row_group >> 20;
    RingPlace here{0, 0}, wide{0, 0};
    for (int c = 0; c < chunks; ++c) {
      barrier_wait(landed_at + 8u * static_cast<unsigned>(here.stage), here.phase,
                   ready_at + 8u * static_cast<unsigned>(wide.stage), wide.phase);
      chains.weights = my_weights + static_cast<std::uint32_t>(here.stage * stage_bytes);
      chains.xs = my_x + static_cast<std::uint32_t>(wide.stage * kStreamChunk * kPitch * 4);
      asm volatile("" : "+r"(chains.weights), "+r"(chains.xs));  // or they are made anew for every group
      const int end = min(kStreamChunk, segment.k_end - k0 - c * kStreamChunk);
      int k = zero + (c == 0 ? segment.k_begin - k0 : 0);
      bool primed = false;
      while (k < end) {
        // Groups of 8 as long as the leaf and the chunk last.
        const int groups = kColumns || (k & 7) == 0 ? min(left, end - k) >> 3 : 0;
        if (groups > 0) {
          if (!primed) chains.prime(k);
          primed = true;
          left -= groups * 8;
          const int stop = k + groups * 8;
          // A short group waits for what it has just read, unless the next follows without a branch.
          constexpr int kRun = kColumns || kCount > 16 ? 1 : kCount > 2 ? 2 : 4;
          if constexpr (kRun > 1) {
#pragma unroll 1
            for (; k + 8 * kRun <= stop; k += 8 * kRun) {
#pragma unroll
              for (int g = 0; g < kRun; ++g) chains.group(k + 8 * g);
            }
          }
#pragma unroll 1
          for (; k < stop; k += 8) chains.group(k);
        } else {
          chains.single(k);
          primed = false;
          k += 1;
          left -= 1;
        }
        if (left > 0) continue;
        node.template take<true>(chains.acc);
        stack.merge(step.merges(), node);
        chains.reset();
        if (!step.emits()) {
          stack.push(node);
        } else if constexpr (!kGateUp) {
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
            const int token = token0 + i % kTokens;
            const int row = row0 + (kColumns ? row_group * kRows + i / kTokens
                                             : row_group + i / kTokens * args.row_groups);
            if (stores && token < args.tokens && row < args.outer) {
              store_node(args.target,
                         lane * args.lane_stride + node_index * args.target.node_stride +
                             token * args.target.row_stride + row * args.target.col_stride,
                         node.value(i));
            }
          }
          ++node_index;
        }
        ++leaf;
        step = next_step;
        next_step = step_of(leaf + 1);
        left = leaf < end_leaf ? step.length() : 0;
      }
      barrier_arrive(drained_at + 8u * static_cast<unsigned>(here.stage));
      here.advance(args.stages);
      wide.advance(kWideBuffers);
    }
  }

  if constexpr (kGateUp) {  // the last node is the root
    __syncthreads();        // the ring is free
    Bf16* const roots = reinterpret_cast<Bf16*>(memory);
    if (thread >= before_chains && stores) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        roots[(token0 + i % kTokens) * tile + row_group + i / kTokens * args.row_groups] =
            numerics::round_bf16(node.value(i));
      }
    }
    __syncthreads();
    activate_tile(args.activation, roots, half, row0, args.outer, args.tokens);
  }
}

}  // namespace samebits::engine::cuda::fma_leaf
