#include <algorithm>

#include "engine/cuda/launch.hpp"
#include "engine/cuda/mma.cuh"
#include "engine/cuda/nodes.cuh"
#include "engine/cuda/sm90_outer.hpp"

namespace samebits::engine::cuda {
namespace {

// Blocks walk over tiles of 128 x 128, a warp has 32 x 64 of one. The operands of the next tile are on their
// way while this one is made and written, so that the writes never wait for a read.
constexpr int kTile = 128;
constexpr int kThreads = 256;
constexpr int kPitch =
    kTile * 2 + 16;  // bytes of a row in shared memory: sixteen more, so that rows change banks

struct Arguments {
  Operand left, right;
  std::uint16_t* out;
  std::int64_t row_stride;
  int tokens, padded;  // a multiple of 16: what is beyond is +0
};

// Two sets of operands, and the tile on its way out.
int shared_bytes(int padded) { return (4 * padded + kTile) * kPitch; }

// Tokens x 128 of an operand, sixteen bytes at a time; beyond the tokens and the matrix +0.
__device__ void fetch(const Operand& from, int tokens, int padded, std::int64_t first, unsigned char* to) {
  constexpr int kPieces = kTile / 8;
  for (int i = static_cast<int>(threadIdx.x); i < padded * kPieces; i += kThreads) {
    const int token = i / kPieces, piece = i % kPieces;
    const std::int64_t col = first + piece * 8;
    const bool inside = token < tokens && col < from.outer;
    const std::uint16_t* const source = inside ? from.data + token * from.k_stride + col : from.data;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     shared_address(to + token * kPitch + piece * 16)),
                 "l"(source), "r"(inside ? 16 : 0)
                 : "memory");
  }
}

__global__ void __launch_bounds__(kThreads, 2) outer(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(16) unsigned char memory[];
  const int set_bytes = 2 * args.padded * kPitch;
  unsigned char* const result = memory + 2 * set_bytes;
  const std::int64_t across = (args.right.outer + kTile - 1) / kTile;
  const std::int64_t tiles = (args.left.outer + kTile - 1) / kTile * across;
  const auto fetch_tile = [&](std::int64_t tile, int set) {
    if (tile < tiles) {
      unsigned char* const to = memory + set * set_bytes;
      fetch(args.left, args.tokens, args.padded, tile / across * kTile, to);
      fetch(args.right, args.tokens, args.padded, tile % across * kTile, to + args.padded * kPitch);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / 2 * 32, warp_col = warp % 2 * 64, matrix = lane / 8, line = lane % 8;
  // Both operands lie with the tokens as rows: fragments are loaded transposed.
  const auto a_at =
      static_cast<std::uint32_t>((matrix / 2 * 8 + line) * kPitch + (warp_row + matrix % 2 * 8) * 2);
  const auto b_at = static_cast<std::uint32_t>((args.padded + matrix % 2 * 8 + line) * kPitch +
                                               (warp_col + matrix / 2 * 8) * 2);
  wait_for_kernels_before();
  int set = 0;
  fetch_tile(blockIdx.x, set);
#pragma unroll 1
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, set ^= 1) {
    fetch_tile(tile + gridDim.x, set ^ 1);
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();  // these operands are there; the tile before has been written out
    const std::uint32_t operands = shared_address(memory + set * set_bytes);
    float acc[2][8][4] = {};
#pragma unroll 1
    for (int k = 0; k < args.padded; k += 16) {
      const std::uint32_t step = operands + static_cast<std::uint32_t>(k * kPitch);
      std::uint32_t a[2][4], b[4][4];
#pragma unroll
      for (int m = 0; m < 2; ++m)
        load_matrices_transposed(a[m], step + a_at + static_cast<std::uint32_t>(m * 32));
#pragma unroll
      for (int n = 0; n < 4; ++n)
        load_matrices_transposed(b[n], step + b_at + static_cast<std::uint32_t>(n * 32));
#pragma unroll
      for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int n = 0; n < 8; ++n) mma_step(acc[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
      }
    }
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = warp_row + m * 16 + half * 8 + lane / 4, col = warp_col + n * 8 + lane % 4 * 2;
          *reinterpret_cast<std::uint32_t*>(result + row * kPitch + col * 2) =
              pack_bf16(acc[m][n][half * 2], acc[m][n][half * 2 + 1]);
        }
      }
    }
    __syncthreads();
    // Sixteen threads write a row of 256 bytes.
    const std::int64_t row0 = tile / across * kTile, col0 = tile % across * kTile;
#pragma unroll
    for (int i = 0; i < kTile * kTile / 8 / kThreads; ++i) {
      const int at = i * kThreads + static_cast<int>(threadIdx.x), row = at / 16, piece = at % 16;
      if (row0 + row >= args.left.outer || col0 + piece * 8 >= args.right.outer) continue;
      *reinterpret_cast<uint4*>(args.out + (row0 + row) * args.row_stride + col0 + piece * 8) =
          *reinterpret_cast<const uint4*>(result + row * kPitch + piece * 16);
    }
  }
  let_next_kernel_begin();
}

bool is_aligned(const void* data, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % 8 == 0;
}

}  // namespace

bool outer_serves(const Contraction& problem) {
  const Operand &left = problem.left, &right = problem.right;
  return problem.k <= kOuterTokens && problem.leaves->count() == 1 && problem.leaves->nodes() == 1 &&
         !problem.target.f32 && problem.target.col_stride == 1 && left.outer_stride == 1 &&
         right.outer_stride == 1 && left.outer % 8 == 0 && right.outer % 8 == 0 &&
         is_aligned(left.data, left.k_stride) && is_aligned(right.data, right.k_stride) &&
         is_aligned(problem.target.data, problem.target.row_stride);
}

void prepare_outer() { allow_shared_memory(outer, shared_bytes(static_cast<int>(kOuterTokens))); }

void contract_outer(const Contraction& problem, int multiprocessors, cudaStream_t stream) {
  const int tokens = static_cast<int>(problem.k), padded = (tokens + 15) / 16 * 16;
  const std::int64_t tiles =
      (problem.left.outer + kTile - 1) / kTile * ((problem.right.outer + kTile - 1) / kTile);
  const Arguments args{problem.left,
                       problem.right,
                       static_cast<std::uint16_t*>(problem.target.data),
                       problem.target.row_stride,
                       tokens,
                       padded};
  const int resident = multiprocessors * (shared_bytes(padded) <= 112 * 1024 ? 2 : 1);
  LaunchShape shape{static_cast<int>(std::min<std::int64_t>(tiles, resident)), kThreads,
                    shared_bytes(padded)};
  shape.early = true;
  launch(outer, shape, stream, "weight gradient of few tokens", args);
}

}  // namespace samebits::engine::cuda
