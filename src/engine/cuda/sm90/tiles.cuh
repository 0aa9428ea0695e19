// The kernel of tiles.hpp. A block is one thread that feeds a ring of operand tiles and two
// warpgroups that each contract 64 rows. A leaf is one uninterrupted chain of wgmma steps; after it the
// warpgroup merges pending nodes, kept in a scratch of its own (L2), and stores what the tree has finished.
#pragma once

#include <algorithm>

#include "engine/cuda/sm90/tiles_pending.cuh"
#include "engine/cuda/sm90/tiles_produce.cuh"
#include "engine/cuda/sm90/wgmma.cuh"

namespace samebits::engine::cuda::tiles {

template <class Epilogue, class Shape, int kLanes, TileLayout kLeft, TileLayout kRight>
struct TileKernel {
  using Ring = tiles::Ring<Shape>;
  using Walk = TileWalk<Epilogue>;
  static constexpr int kStages = Shape::kStages, kRegisters = Shape::kRegisters;
  static constexpr int kColumns = kResultColumns<Epilogue, Shape>;
  static constexpr int kChunks = Epilogue::template kChunks<Shape>;
  // What a launch gives 384 threads is 168 each; together these are no more, or the second would wait
  // forever.
  static constexpr int kProducerRegisters = 56, kConsumerRegisters = 224;
  static_assert(kProducerRegisters + kGroups * kConsumerRegisters <= 168 * (1 + kGroups));
  // As many values of a pending node as fit beside the accumulators and what a second lane or sigma takes.
  static constexpr int kNear = std::min(kRegisters, kLanes == 2 || Epilogue::kSigma ? 32 : 64);

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
        TileProducer<Epilogue, Shape, kLanes, kLeft, kRight>::produce(args, ring, walk);
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

}  // namespace samebits::engine::cuda::tiles
