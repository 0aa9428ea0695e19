#include "engine/cuda/nodes.cuh"
#include "engine/cuda/plain.hpp"
#include "gpu/check.hpp"
#include "numerics/leaf_fma.hpp"

namespace samebits::engine::cuda {
namespace {

using numerics::Bf16;

constexpr int kThreads = 128;  // four warps, 2 x 2, each 32 x 32 of the tile
constexpr int kTile = kPlainTile;
constexpr int kChunk = 16;  // one group of the sm90 leaf
constexpr int kPitch = kChunk + 8;
constexpr int kShare = kTile * kTile / kThreads;   // results of a thread
constexpr int kLoads = kTile * kChunk / kThreads;  // operand elements of a thread, a chunk

// One 64 x 16 chunk of an operand, on its way from memory to shared memory.
struct ChunkLoad {
  Bf16 value[kLoads];

  __device__ void fetch(const Operand& from, std::int64_t outer0, std::int64_t k0, int count) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x);
      const bool along_k = from.k_stride == 1;
      const int outer = along_k ? at / kChunk : at % kTile, k = along_k ? at % kChunk : at / kTile;
      value[i] = 0;  // beyond the leaf and beyond the matrix
      if (k < count && outer0 + outer < from.outer) {
        value[i] = from.data[(outer0 + outer) * from.outer_stride + (k0 + k) * from.k_stride];
      }
    }
  }
  __device__ void place(const Operand& from, Bf16 (&to)[kTile][kPitch]) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x);
      const bool along_k = from.k_stride == 1;
      to[along_k ? at / kChunk : at % kTile][along_k ? at % kChunk : at / kTile] = value[i];
    }
  }
};

// Where value v of a thread lies in the tile: as mma.m16n8 lays accumulators out.
__device__ int row_of(int v) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  return warp / 2 * 32 + v / 16 * 16 + lane / 4 + v / 2 % 2 * 8;
}
__device__ int col_of(int v) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  return warp % 2 * 32 + v / 4 % 4 * 8 + lane % 4 * 2 + v % 2;
}

__device__ std::uint32_t two(const Bf16* from) { return *reinterpret_cast<const std::uint32_t*>(from); }

// acc continued over one chunk of `count` k.
template <Leaf kLeaf>
__device__ void step(const Bf16 (&left)[kTile][kPitch], const Bf16 (&right)[kTile][kPitch], int count,
                     float (&acc)[kShare]) {
  if constexpr (kLeaf == Leaf::fma) {
    for (int k = 0; k < count; ++k) {
#pragma unroll
      for (int v = 0; v < kShare; ++v)
        acc[v] = numerics::fma_step(acc[v], left[row_of(v)][k], right[col_of(v)][k]);
    }
  } else {
    static_cast<void>(count);  // the rest of the group is +0
    const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const int row = row_of(m * 16);
      const std::uint32_t a[4] = {two(&left[row][pair]), two(&left[row + 8][pair]), two(&left[row][pair + 8]),
                                  two(&left[row + 8][pair + 8])};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int col = col_of(n * 4) - pair + static_cast<int>(threadIdx.x) % 32 / 4;
        const std::uint32_t b[2] = {two(&right[col][pair]), two(&right[col][pair + 8])};
        float* const d = acc + m * 16 + n * 4;
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
      }
    }
  }
}

struct Arguments {
  Operand left, right;
  Target target;
  Carried carried;
  Pending pending;
  bool bf16_nodes;
};

// body(v, row, col) of a thread's results that lie in the matrix.
template <class Body>
__device__ void for_each_result(const Arguments& args, std::int64_t row0, std::int64_t col0,
                                const Body& body) {
#pragma unroll
  for (int v = 0; v < kShare; ++v) {
    const std::int64_t row = row0 + row_of(v), col = col0 + col_of(v);
    if (row < args.left.outer && col < args.right.outer) body(v, row, col);
  }
}

template <Leaf kLeaf, class List>
__global__ void __launch_bounds__(kThreads)
    plain(const __grid_constant__ Arguments args, const __grid_constant__ List leaves) {
  __shared__ alignas(16) Bf16 left[kTile][kPitch], right[kTile][kPitch];
  const std::int64_t across = (args.right.outer + kTile - 1) / kTile;
  const std::int64_t tiles = (args.left.outer + kTile - 1) / kTile * across;
  const std::int64_t level = std::int64_t{kTile} * kTile;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::int64_t row0 = tile / across * kTile, col0 = tile % across * kTile;
    PendingStack<kShare> stack{args.pending.data + blockIdx.x * args.pending.levels * level + threadIdx.x,
                               level, kThreads};
    std::int64_t begin = 0;
    int node = 0;
    for (int i = 0; i < leaves.count; ++i) {
      const LeafStep leaf = leaves.step[i];
      float acc[kShare] = {};
      if (args.carried.resumes && i == 0) {
        for_each_result(args, row0, col0, [&](int v, std::int64_t row, std::int64_t col) {
          acc[v] = args.carried.data[row * args.carried.row_stride + col];
        });
      }
      ChunkLoad next_left, next_right;
      const auto fetch = [&](int k) {
        const int count = min(kChunk, leaf.length() - k);
        next_left.fetch(args.left, row0, begin + k, count);
        next_right.fetch(args.right, col0, begin + k, count);
      };
      fetch(0);
      for (int k = 0; k < leaf.length(); k += kChunk) {
        __syncthreads();  // the chunk before has been read
        next_left.place(args.left, left);
        next_right.place(args.right, right);
        __syncthreads();
        if (k + kChunk < leaf.length()) fetch(k + kChunk);
        step<kLeaf>(left, right, min(kChunk, leaf.length() - k), acc);
      }
      begin += leaf.length();
      if (args.carried.stays_open && i + 1 == leaves.count) {
        for_each_result(args, row0, col0, [&](int v, std::int64_t row, std::int64_t col) {
          args.carried.data[row * args.carried.row_stride + col] = acc[v];
        });
        break;
      }
#pragma unroll
      for (float& value : acc) value = as_node(args.bf16_nodes, value);
      stack.merge(leaf.merges(), args.bf16_nodes, acc);
      if (!leaf.emits()) {
        stack.push(acc);
        continue;
      }
      for_each_result(args, row0, col0, [&](int v, std::int64_t row, std::int64_t col) {
        store_node(
            args.target,
            args.target.start_of_row(row) + col * args.target.col_stride + node * args.target.node_stride,
            acc[v]);
      });
      ++node;
    }
  }
}

template <Leaf kLeaf>
void launch(const Contraction& problem, const Arguments& args, unsigned blocks, cudaStream_t stream) {
  if (problem.leaves->fits_short()) {
    plain<kLeaf><<<blocks, kThreads, 0, stream>>>(args, problem.leaves->list<ShortLeafList>());
  } else {
    plain<kLeaf><<<blocks, kThreads, 0, stream>>>(args, problem.leaves->list<LongLeafList>());
  }
  check_launch("plain contraction");
}

}  // namespace

int plain_slots(int multiprocessors) { return multiprocessors * 4; }

void contract_plain(const Contraction& problem, const Pending& pending, cudaStream_t stream) {
  const std::int64_t tiles =
      (problem.left.outer + kTile - 1) / kTile * ((problem.right.outer + kTile - 1) / kTile);
  if (tiles == 0 || problem.leaves->count() == 0) return;
  const Arguments args{problem.left,    problem.right, problem.target,
                       problem.carried, pending,       problem.bf16_nodes};
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, pending.slots));
  if (problem.leaf == Leaf::fma) {
    launch<Leaf::fma>(problem, args, blocks, stream);
  } else {
    launch<Leaf::sm90>(problem, args, blocks, stream);
  }
}

}  // namespace samebits::engine::cuda
