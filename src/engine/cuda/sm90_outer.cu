#include "engine/cuda/launch.hpp"
#include "engine/cuda/mma.cuh"
#include "engine/cuda/nodes.cuh"
#include "engine/cuda/sm90_outer.hpp"

namespace samebits::engine::cuda {
namespace {

// A block makes 128 x 128 of the result from all tokens; a warp 32 x 64 of it.
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

int shared_bytes(int padded) { return std::max(2 * padded, kTile) * kPitch; }

// Tokens x 128 of an operand, sixteen bytes at a time; beyond the tokens and the matrix +0. Widths are whole
// pieces.
__device__ void load(const Operand& from, int tokens, int padded, std::int64_t first, unsigned char* to) {
  constexpr int kPieces = kTile / 8;
  for (int i = static_cast<int>(threadIdx.x); i < padded * kPieces; i += kThreads) {
    const int token = i / kPieces, piece = i % kPieces;
    const std::int64_t col = first + piece * 8;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (token < tokens && col < from.outer) {
      value = __ldg(reinterpret_cast<const uint4*>(from.data + token * from.k_stride + col));
    }
    *reinterpret_cast<uint4*>(to + token * kPitch + piece * 16) = value;
  }
}

__global__ void __launch_bounds__(kThreads, 2) outer(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(16) unsigned char memory[];
  unsigned char *const left = memory, *const right = memory + args.padded * kPitch;
  const std::int64_t across = (args.right.outer + kTile - 1) / kTile;
  const std::int64_t row0 = blockIdx.x / across * kTile, col0 = blockIdx.x % across * kTile;
  wait_for_kernels_before();
  load(args.left, args.tokens, args.padded, row0, left);
  load(args.right, args.tokens, args.padded, col0, right);
  __syncthreads();

  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = warp / 2 * 32, warp_col = warp % 2 * 64, matrix = lane / 8, line = lane % 8;
  float acc[2][8][4] = {};
  // Both lie with the tokens as rows: fragments are loaded transposed.
  const std::uint32_t a_at =
      shared_address(left) +
      static_cast<std::uint32_t>((matrix / 2 * 8 + line) * kPitch + (warp_row + matrix % 2 * 8) * 2);
  const std::uint32_t b_at =
      shared_address(right) +
      static_cast<std::uint32_t>((matrix % 2 * 8 + line) * kPitch + (warp_col + matrix / 2 * 8) * 2);
#pragma unroll 1
  for (int k = 0; k < args.padded; k += 16) {
    const auto step = static_cast<std::uint32_t>(k * kPitch);
    std::uint32_t a[2][4], b[4][4];
#pragma unroll
    for (int m = 0; m < 2; ++m)
      load_matrices_transposed(a[m], a_at + step + static_cast<std::uint32_t>(m * 32));
#pragma unroll
    for (int n = 0; n < 4; ++n)
      load_matrices_transposed(b[n], b_at + step + static_cast<std::uint32_t>(n * 32));
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < 8; ++n) mma_step(acc[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
  }
  __syncthreads();  // the operands have been read; the result takes their place
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp_row + m * 16 + half * 8 + lane / 4, col = warp_col + n * 8 + lane % 4 * 2;
        *reinterpret_cast<std::uint32_t*>(memory + row * kPitch + col * 2) =
            pack_bf16(acc[m][n][half * 2], acc[m][n][half * 2 + 1]);
      }
    }
  }
  __syncthreads();
  let_next_kernel_begin();
  // Sixteen threads write a row of 256 bytes.
#pragma unroll
  for (int i = 0; i < kTile * kTile / 8 / kThreads; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x), row = at / 16, piece = at % 16;
    if (row0 + row >= args.left.outer || col0 + piece * 8 >= args.right.outer) continue;
    *reinterpret_cast<uint4*>(args.out + (row0 + row) * args.row_stride + col0 + piece * 8) =
        *reinterpret_cast<const uint4*>(memory + row * kPitch + piece * 16);
  }
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

void contract_outer(const Contraction& problem, cudaStream_t stream) {
  const int tokens = static_cast<int>(problem.k), padded = (tokens + 15) / 16 * 16;
  const std::int64_t tiles =
      (problem.left.outer + kTile - 1) / kTile * ((problem.right.outer + kTile - 1) / kTile);
  const Arguments args{problem.left,
                       problem.right,
                       static_cast<std::uint16_t*>(problem.target.data),
                       problem.target.row_stride,
                       tokens,
                       padded};
  LaunchShape shape{static_cast<int>(tiles), kThreads, shared_bytes(padded)};
  shape.early = true;
  launch(outer, shape, stream, "weight gradient of few tokens", args);
}

}  // namespace samebits::engine::cuda
