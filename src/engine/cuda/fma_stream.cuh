// The stream kernel; fma_stream_*.cu instantiate it.
#pragma once

#include "engine/cuda/fma_maps.hpp"
#include "engine/cuda/fma_stream_chains.cuh"
#include "engine/cuda/fma_stream_ring.cuh"
#include "engine/cuda/launch.hpp"
#include "engine/cuda/nodes.cuh"
#include "numerics/swiglu.hpp"

namespace samebits::engine::cuda::fma_leaf {

enum class StreamWeights { rows, columns, gate_up };

struct StreamArguments {
  CUtensorMap weight[2], x[2];
  int outer, tokens;
  Target target;
  std::int64_t lane_stride;
  int row_groups, token_groups, stages, segments, lanes;
  int boxes;  // copies that a stage's weights take
  bool early;
  LeafSegment segment[kMostSegments];
  StreamActivation activation;
};

// G, U and A from the block's roots, [tokens][tile] bf16 in shared memory: gate rows, then up rows.
__device__ inline void activate_tile(const StreamActivation& activation, const Bf16* roots, int half,
                                     int row0, int outer, int tokens) {
  constexpr int kBatch = 4;  // elements of a thread whose sigma is on its way
  const int count = half * tokens, threads = static_cast<int>(blockDim.x);
  const auto put = [](const View& view, int row, int col, Bf16 value) {
    static_cast<Bf16*>(view.data)[row * view.row_stride + col * view.col_stride] = value;
  };
  for (int first = static_cast<int>(threadIdx.x); first < count; first += kBatch * threads) {
    Bf16 gate[kBatch], up[kBatch];
    float sigma[kBatch];
    int token[kBatch], row[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = min(first + i * threads, count - 1);
      token[i] = at / half;
      row[i] = at - token[i] * half;
      gate[i] = roots[token[i] * 2 * half + row[i]];
      up[i] = roots[token[i] * 2 * half + half + row[i]];
      sigma[i] = __ldg(activation.sigma + gate[i]);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int col = row0 + row[i];
      if (first + i * threads >= count || col >= outer) continue;
      if (activation.keep) {
        put(activation.gate, token[i], col, gate[i]);
        put(activation.up, token[i], col, up[i]);
      }
      put(activation.act, token[i], col, numerics::swiglu(activation.kind, gate[i], up[i], sigma[i]));
    }
  }
}

constexpr int stream_threads(int results) { return results <= 12 ? 512 : 256; }

template <int kTokens, int kRows, bool kBf16, StreamWeights kWeights>
__global__ void __launch_bounds__(stream_threads(kTokens* kRows), 1)
    stream(const __grid_constant__ StreamArguments args, const __grid_constant__ FmaLeafList leaves) {
  constexpr bool kColumns = kWeights == StreamWeights::columns, kGateUp = kWeights == StreamWeights::gate_up;
  constexpr int kCount = kTokens * kRows, kPitch = stream_x_pitch(kTokens);
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ std::uint64_t landed[kMostStages];
  const int thread = static_cast<int>(threadIdx.x), row_group = thread % args.row_groups;
  const int token0 = thread / args.row_groups * kTokens;
  const int tile = kRows * args.row_groups, half = tile / 2, x_tokens = kTokens * args.token_groups;
  const int stage_bytes = stream_stage_bytes(tile, x_tokens), weight_bytes = stream_weight_bytes(tile);
  float* const widened = reinterpret_cast<float*>(memory + args.stages * stage_bytes);

  int unit = static_cast<int>(blockIdx.x);
  const int lane = unit % args.lanes;
  unit /= args.lanes;
  const LeafSegment& segment = args.segment[unit % args.segments];
  const int row0 = unit / args.segments * (kGateUp ? half : tile);
  const int k0 = segment.k_begin & ~7, chunks = (segment.k_end - k0 + kStreamChunk - 1) / kStreamChunk;

  // One thread feeds the ring. A stage's bytes are announced with its weights; what lies outside a matrix
  // counts too, and arrives as +0.
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
  Widening<kPitch> widening(x_tokens);
  const auto widen_x = [&](int chunk, int stage) {
    widening.run(memory + stage * stage_bytes + weight_bytes, widened + (chunk & 1) * kStreamChunk * kPitch);
  };

  // Fill the ring but for one stage. Weights are older than the kernel in front; x is its result.
  let_next_kernel_begin();
  const int ahead = args.stages - 1;
  if (thread == 0) {
    for (int s = 0; s < args.stages; ++s) barrier_init(&landed[s], 1);
    barrier_init_fence();
    if (!args.early) wait_for_kernels_before();
    for (int c = 0; c < min(ahead, chunks); ++c) load_weights(c, c);
    if (args.early) wait_for_kernels_before();
    for (int c = 0; c < min(ahead, chunks); ++c) load_x(c, c);
  }
  __syncthreads();
  barrier_wait(&landed[0], 0);
  widen_x(0, 0);

  StreamChains<kTokens, kRows, kColumns> chains;
  chains.reset();
  chains.tile_bytes = tile * 2;
  chains.row_bytes = args.row_groups * kStreamChunk * 2;
  chains.swizzle = row_group & 7;
  StreamStack<kCount, kBf16> stack;
  stack.data = reinterpret_cast<std::uint32_t*>(widened + 2 * kStreamChunk * kPitch) + thread * stack.kWide;
  NodeShare<kCount, kBf16> node;

  int leaf = segment.first_leaf, left = leaves.step[leaf].length(), node_index = segment.first_node;
  RingPlace next{1, 0};
  int stage = 0, free_stage = ahead;
  const int first = segment.k_begin - k0;
  for (int c = 0; c < chunks; ++c) {
    // The next chunk has landed everywhere, and the one before has been read by all.
    if (c + 1 < chunks) barrier_wait(&landed[next.stage], next.phase);
    __syncthreads();
    if (thread == 0 && c + ahead < chunks) {
      load_weights(c + ahead, free_stage);
      load_x(c + ahead, free_stage);
    }
    if (c + 1 < chunks) widen_x(c + 1, next.stage);

    chains.weights = memory + stage * stage_bytes + row_group * (kColumns ? kRows * 2 : kStreamChunk * 2);
    chains.xs = widened + (c & 1) * kStreamChunk * kPitch + token0;
    const int end = min(kStreamChunk, segment.k_end - k0 - c * kStreamChunk);
    int k = c == 0 ? first : 0;
    bool primed = false;
    while (k < end) {
      // Groups of 8 as long as the leaf and the chunk last.
      const int groups = kColumns || (k & 7) == 0 ? min(left, end - k) >> 3 : 0;
      if (groups > 0) {
        if (!primed) chains.prime(k);
        primed = true;
        left -= groups * 8;
#pragma unroll 1
        for (const int stop = k + groups * 8; k < stop; k += 8) chains.group(k);
      } else {
        chains.single(k);
        primed = false;
        k += 1;
        left -= 1;
      }
      if (left > 0) continue;
      const LeafStep step = leaves.step[leaf];
      node.template take<true>(chains.acc);
      stack.merge(step.merges(), node);
      chains.reset();
      if (!step.emits()) {
        stack.push(node);
      } else if constexpr (!kGateUp) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          const int token = token0 + i % kTokens;
          const int row =
              row0 + (kColumns ? row_group * kRows + i / kTokens : row_group + i / kTokens * args.row_groups);
          if (token < args.tokens && row < args.outer) {
            store_node(args.target,
                       lane * args.lane_stride + node_index * args.target.node_stride +
                           token * args.target.row_stride + row * args.target.col_stride,
                       node.value(i));
          }
        }
        ++node_index;
      }
      ++leaf;
      left = leaf < segment.first_leaf + segment.leaves ? leaves.step[leaf].length() : 0;
    }
    stage = next.stage;
    next.advance(args.stages);
    free_stage = free_stage + 1 == args.stages ? 0 : free_stage + 1;
  }

  if constexpr (kGateUp) {  // the last node is the root
    __syncthreads();        // the ring is free
    Bf16* const roots = reinterpret_cast<Bf16*>(memory);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      roots[(token0 + i % kTokens) * tile + row_group + i / kTokens * args.row_groups] =
          numerics::round_bf16(node.value(i));
    }
    __syncthreads();
    activate_tile(args.activation, roots, half, row0, args.outer, args.tokens);
  }
}

template <int kTokens, int kRows, StreamWeights kWeights>
void prepare_stream() {
  constexpr int kBytes = 226 * 1024;
  allow_shared_memory(stream<kTokens, kRows, false, kWeights>, kBytes);
  allow_shared_memory(stream<kTokens, kRows, true, kWeights>, kBytes);
}

template <int kTokens, int kRows, StreamWeights kWeights>
void launch_stream(const StreamProblem& problem, const Target& target, const StreamActivation& activation,
                   const StreamLaunch& how, cudaStream_t stream_handle) {
  const StreamTuning& tuning = how.tuning;
  const auto outer = static_cast<int>(problem.weight[0].outer);
  const int tile = tuning.tile();
  StreamArguments args{};
  // A box has at most 256 lines or columns.
  args.boxes = problem.gate_up ? 2 : problem.by_columns() ? 1 : (tile + kMostBox - 1) / kMostBox;
  for (int lane = 0; lane < (problem.gate_up ? 2 : problem.lanes); ++lane) {
    args.weight[lane] = problem.by_columns()
                            ? map_of(problem.weight[lane], problem.k, tile, kStreamChunk)
                            : map_of(problem.weight[lane], problem.k, kStreamChunk, tile / args.boxes);
    args.x[lane] = map_of(problem.x[lane], problem.k, kStreamChunk, tuning.tokens * tuning.token_groups);
  }
  args.outer = outer;
  args.tokens = static_cast<int>(problem.x[0].outer);
  args.target = target;
  args.lane_stride = how.lane_stride;
  args.row_groups = tuning.row_groups;
  args.token_groups = tuning.token_groups;
  args.stages = tuning.stages;
  args.segments = how.leaves->segments;
  args.lanes = problem.lanes;
  args.early = how.early;
  for (int s = 0; s < how.leaves->segments; ++s) args.segment[s] = how.leaves->segment[s];
  args.activation = activation;
  const int rows = problem.gate_up ? tile / 2 : tile;
  const LaunchShape shape{.blocks = (outer + rows - 1) / rows * args.segments * args.lanes,
                          .threads = tuning.threads(),
                          .shared_bytes = tuning.shared_bytes,
                          .early = how.early};
  if (problem.bf16_nodes) {
    launch(stream<kTokens, kRows, true, kWeights>, shape, stream_handle, "stream contraction", args,
           how.leaves->list);
  } else {
    launch(stream<kTokens, kRows, false, kWeights>, shape, stream_handle, "stream contraction", args,
           how.leaves->list);
  }
}

}  // namespace samebits::engine::cuda::fma_leaf
