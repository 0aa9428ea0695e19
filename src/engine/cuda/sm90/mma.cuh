// mma.sync m16n8k16, one k16 step of the sm90 leaf on a warp's registers, and the fragments that it takes
// from shared-memory tiles as the copy engine's swizzle leaves them.
#pragma once

#include <cstdint>

#include "engine/cuda/hopper.cuh"

namespace samebits::engine::cuda {

__device__ inline void mma_step(float (&acc)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices, the addresses of whose rows four times eight lanes give.
__device__ inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_matrices_transposed(std::uint32_t (&to)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// The copy engine's swizzle. In rows of 64 k (128 bytes), sixteen-byte piece p of row r stands at p ^ r % 8;
// in rows of 32 columns (64 bytes), at p ^ r / 2 % 4.
__device__ inline std::uint32_t k_major_piece(int row, int piece) {
  return static_cast<std::uint32_t>((piece ^ (row & 7)) * 16);
}
__device__ inline std::uint32_t column_piece(int row, int piece) {
  return static_cast<std::uint32_t>((piece ^ (row >> 1 & 3)) * 16);
}

}  // namespace samebits::engine::cuda
