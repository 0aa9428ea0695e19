// The kernel of wide.hpp. A block is warpgroups that contract the same 64 rows of the weights, each with
// tokens of its own, and a warp that feeds them through a ring; or two such parts, which take the leaves in
// turn. Blocks of a cluster have the tokens of the call between them, and each brings half of the weights, to
// both. What becomes of a leaf is as in tiles.cuh: leaves may end in any order, their nodes are merged
// in the tree's.
#pragma once

#include <type_traits>

#include "engine/cuda/launch.hpp"
#include "engine/cuda/nodes.cuh"
#include "engine/cuda/sm90/tensor_map.hpp"
#include "engine/cuda/sm90/wgmma.cuh"
#include "engine/cuda/sm90/wide_ring.cuh"

namespace samebits::engine::cuda::wide {

struct Arguments {
  CUtensorMap weight[2], token[2][2];  // tokens: of the first block of a cluster, and of the second
  ShortLeafList leaves;
  std::int64_t rows;
  int share[2];  // tokens of the first block, and of the second
  int tiles;     // of 64 rows
  int lanes;
  int stages;
  float* pending;  // null: in shared memory
  int levels;
  bool bf16_nodes;
  Precision lanes_precision;
  Target target;
};

// A thread's pending nodes, in shared memory or in the scratch: sixteen bytes of every thread side by side.
template <class Shape>
struct PendingNodes {
  static constexpr int kRegisters = Shape::kRegisters;
  static constexpr int kLevel = kRegisters / 4 * Shape::kPartThreads;  // in float4
  float4* data;                                                        // this thread's of level 0
  int height = 0;

  __device__ void push(const float (&acc)[kRegisters]) {
    float4* const to = data + height++ * kLevel;
#pragma unroll
    for (int i = 0; i < kRegisters / 4; ++i) {
      to[i * Shape::kPartThreads] = make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]);
    }
  }
  // acc = combine(pending, acc)
  template <class Combine>
  __device__ void pop(float (&acc)[kRegisters], const Combine& combine) {
    const float4* const from = data + --height * kLevel;
#pragma unroll
    for (int i = 0; i < kRegisters / 4; ++i) {
      const float4 lower = from[i * Shape::kPartThreads];
      acc[4 * i] = combine(lower.x, acc[4 * i]);
      acc[4 * i + 1] = combine(lower.y, acc[4 * i + 1]);
      acc[4 * i + 2] = combine(lower.z, acc[4 * i + 2]);
      acc[4 * i + 3] = combine(lower.w, acc[4 * i + 3]);
    }
  }
};

// A value that all lanes of a warp have, said so: descriptors made of it stay in the registers that wgmma
// takes them from.
__device__ inline int uniform(int value) { return __shfl_sync(~0u, value, 0); }

template <class Shape, TileLayout kWeights>
struct WideKernel {
  using Ring = wide::Ring<Shape>;
  using Pending = PendingNodes<Shape>;
  static constexpr int kRegisters = Shape::kRegisters, kCluster = Shape::kCluster;

  // Clusters walk over the rows of the weights.
  __device__ static int first_tile() { return static_cast<int>(blockIdx.x) / kCluster; }
  __device__ static int tile_step() { return static_cast<int>(gridDim.x) / kCluster; }

  // A block's share of a box of the weights, for all blocks of the cluster: some of its rows, or of its k.
  __device__ static void load_weights(const CUtensorMap* map, unsigned char* box, int k, int row, int rank,
                                      std::uint64_t* full) {
    constexpr bool kByRows = kWeights == TileLayout::k_major;
    constexpr int kShare = kBox / kCluster;
    const int share = rank * kShare, x = kByRows ? k : row, y = (kByRows ? row : k) + share;
    unsigned char* const to = box + share * kBox * 2;
    if constexpr (kCluster == 1) {
      load_tile(to, map, x, y, full, Keep::briefly);
    } else {
      load_tile_for_all(to, map, x, y, full, (1 << kCluster) - 1, Keep::briefly);
    }
  }

  // The leaves of one part.
  __device__ static void produce(const Arguments& args, const Ring& ring, int rank) {
    const int first_token = rank * args.share[0];
    const int box_bytes = Shape::kWeightBox + args.share[rank] * kBox * 2;
    RingPlace at, leaf;
    for (int tile = first_tile(); tile < args.tiles; tile += tile_step()) {
      for (int lane = 0; lane < args.lanes; ++lane) {
        const CUtensorMap *const weights = &args.weight[lane], *const tokens = &args.token[lane][rank];
        int begin = 0;
        for (int i = 0; i < args.leaves.count; ++i, leaf.advance(Shape::kParts)) {
          const int end = begin + args.leaves.step[i].length();
          if (leaf.stage != ring.part) begin = end;
#pragma unroll 1
          for (int k = begin; k < end; k += Shape::kTurn) {
            barrier_wait(ring.empty(at.stage), at.phase ^ 1u);
            std::uint64_t* const full = ring.full(at.stage);
            const int boxes = min((end - k + kBox - 1) / kBox, Shape::kBoxes);
            barrier_expect(full, static_cast<std::uint32_t>(boxes * box_bytes));
#pragma unroll
            for (int box = 0; box < Shape::kBoxes; ++box) {
              if (box == boxes) break;
              load_weights(weights, ring.weights(at.stage, box), k + box * kBox, tile * kRows, rank, full);
              load_tile(ring.tokens(at.stage, box), tokens, k + box * kBox, first_token, full, Keep::long_);
            }
            at.advance(ring.stages);
          }
          begin = end;
        }
      }
    }
  }

  // What a descriptor says beside the place: the same for every stage, so that a place is one word.
  struct Places {
    std::uint64_t weights, tokens;  // of the first box

    // Both operands of step `s` of a stage that lies `ahead` sixteen bytes further.
    __device__ std::uint64_t weights_at(std::uint32_t ahead, int s) const {
      constexpr int kSteps = kBox / 16;
      return moved(weights,
                   ahead + static_cast<std::uint32_t>(
                               (s / kSteps * Shape::kWeightBox + s % kSteps * k16_bytes(kWeights)) >> 4));
    }
    __device__ std::uint64_t tokens_at(std::uint32_t ahead, int s) const {
      constexpr int kSteps = kBox / 16;
      return moved(tokens, ahead + static_cast<std::uint32_t>((s / kSteps * Shape::kTokenBox +
                                                               s % kSteps * k16_bytes(TileLayout::k_major)) >>
                                                              4));
    }

   private:
    // The place is in the lower word, and does not outgrow it.
    __device__ static std::uint64_t moved(std::uint64_t descriptor, std::uint32_t by) {
      return (descriptor >> 32 << 32) | (static_cast<std::uint32_t>(descriptor) + by);
    }
  };

  // One leaf: acc goes on, ascending in k.
  __device__ static void contract(const Ring& ring, RingPlace& at, int length, const Places& places,
                                  float (&acc)[kRegisters]) {
    using Step = Wgmma<Shape::kWidth, is_transposed(kWeights), false>;
    const auto ahead = [&] {
      return static_cast<std::uint32_t>(uniform(at.stage * (Shape::kStageBytes >> 4)));
    };
    const auto steps = [&]<int kCount>(std::integral_constant<int, kCount>) {
      const std::uint32_t stage = ahead();
      wgmma_fence();
#pragma unroll
      for (int s = 0; s < kCount; ++s)
        Step::step(acc, places.weights_at(stage, s), places.tokens_at(stage, s));
      wgmma_commit();
    };
    pin(acc);
    // One stage is in the tensor cores while the next is issued.
    int before = -1;
#pragma unroll 1
    for (int k = Shape::kTurn; k <= length; k += Shape::kTurn) {
      barrier_wait(ring.full(at.stage), at.phase);
      steps(std::integral_constant<int, Shape::kTurn / 16>());
      wgmma_wait<1>();
      if (before >= 0) ring.release(before);
      before = at.stage;
      at.advance(ring.stages);
    }
    const int rest = length % Shape::kTurn;
    int s = 0;
    if (rest > 0) barrier_wait(ring.full(at.stage), at.phase);
    if constexpr (Shape::kBoxes > 1) {
      if (rest >= kBox) {
        steps(std::integral_constant<int, kBox / 16>());
        s = kBox / 16;
      }
    }
    wgmma_wait<0>();
    pin(acc);
    if (before >= 0) ring.release(before);
    // The leaf may end inside the next stage: what follows there belongs to the next leaf, or is +0.
    if (rest == 0) return;
    const std::uint32_t stage = ahead();
#pragma unroll 1
    for (; s * 16 < rest; ++s) {
      wgmma_fence();
      Step::step(acc, places.weights_at(stage, s), places.tokens_at(stage, s));
      wgmma_commit();
      wgmma_wait<0>();
      pin(acc);
    }
    ring.release(at.stage);
    at.advance(ring.stages);
  }

  __device__ static void consume(const Arguments& args, const Ring& ring, int rank) {
    const int thread = static_cast<int>(threadIdx.x) % Shape::kPartThreads, group = uniform(thread / 128);
    const Places places{tile_descriptor<kWeights>(ring.weights(0, 0), Shape::kWeightBox),
                        tile_descriptor<TileLayout::k_major>(
                            ring.tokens(0, 0) + group * Shape::kWidth * kBox * 2, Shape::kTokenBox)};
    const int first_token = rank * args.share[0] + group * Shape::kWidth;
    const int end_token = rank * args.share[0] + args.share[rank];
    float4* const scratch =
        (args.pending == nullptr ? ring.pending
                                 : reinterpret_cast<float4*>(args.pending) +
                                       std::int64_t{blockIdx.x} * args.levels * Pending::kLevel) +
        thread;
    const auto merged = [&](float lower, float upper) { return as_node(args.bf16_nodes, lower + upper); };
    const auto joined = [&](float gate, float up) {
      const bool bf16 = args.lanes_precision == Precision::bf16;
      return as_node(bf16, gate) + as_node(bf16, up);
    };
    RingPlace at, turn;
    for (int tile = first_tile(); tile < args.tiles; tile += tile_step()) {
      Pending pending{scratch};
      for (int lane = 0; lane < args.lanes; ++lane) {
        int node = 0;
#pragma unroll 1
        for (int i = 0; i < args.leaves.count; ++i, turn.advance(Shape::kParts)) {
          const LeafStep leaf = args.leaves.step[i];
          const bool emits = leaf.emits() && lane + 1 == args.lanes, joins = emits && args.lanes == 2;
          if (turn.stage != ring.part) {  // the other part's, which leaves as many nodes
            pending.height += (emits ? 0 : 1) - leaf.merges() - (joins ? 1 : 0);
            node += emits ? 1 : 0;
            continue;
          }
          float acc[kRegisters];
#pragma unroll
          for (float& value : acc) value = 0.0f;
          contract(ring, at, leaf.length(), places, acc);
#pragma unroll
          for (float& value : acc) value = as_node(args.bf16_nodes, value);
          ring.take_nodes(turn);
#pragma unroll 1
          for (int merge = 0; merge < leaf.merges(); ++merge) pending.pop(acc, merged);
          if (joins) pending.pop(acc, joined);
          if (!emits) pending.push(acc);
          ring.pass_nodes();
          if (emits) store(args, acc, tile * kRows, first_token, end_token, node++);
        }
      }
    }
  }

  // A thread has two rows of the weights, and of every eight tokens two neighbours: eight lanes write a run.
  __device__ static void store(const Arguments& args, const float (&acc)[kRegisters], int first_row,
                               int first_token, int end_token, int node) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const Target& target = args.target;
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) {
      const std::int64_t row = first_row + warp * 16 + lane / 4 + i / 2 % 2 * 8,
                         token = first_token + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (row >= args.rows || token >= end_token) continue;
      store_node(target, target.start_of_row(token) + row * target.col_stride + node * target.node_stride,
                 acc[i]);
    }
  }

  __device__ static void run(const Arguments& args, unsigned char* memory) {
    // Warpgroups of every part, then the warps that feed them.
    const bool feeds = threadIdx.x >= Shape::kConsumers;
    const int thread = static_cast<int>(threadIdx.x);
    const int part = feeds ? (thread - Shape::kConsumers) / 32 : thread / Shape::kPartThreads;
    const Ring ring(memory, args.stages, uniform(part));
    const int rank = kCluster == 1 ? 0 : static_cast<int>(cluster_rank());
    if (feeds && threadIdx.x % 32 == 0) {
      ring.init();
      barrier_init_fence();
      for (int lane = 0; lane < args.lanes; ++lane) {
        prefetch_map(&args.weight[lane]);
        prefetch_map(&args.token[lane][rank]);
      }
    }
    __syncthreads();
    cluster_sync();
    wait_for_kernels_before();
    if (feeds) {
      if (threadIdx.x % 32 == 0) {
        produce(args, ring, rank);
        let_next_kernel_begin();
      }
    } else {
      consume(args, ring, rank);
    }
    __syncwarp();
    cluster_sync();  // nobody leaves while the other may still write to it
  }
};

template <class Shape, TileLayout kWeights>
__global__ void __launch_bounds__(Shape::kThreads, 1) wide_kernel(const __grid_constant__ Arguments args) {
  extern __shared__ unsigned char memory[];
  WideKernel<Shape, kWeights>::run(args, memory);
}

}  // namespace samebits::engine::cuda::wide
