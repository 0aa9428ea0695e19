// Instructions of NVIDIA's that the fma kernels are written with, one a function: on bf16 words, and copies
// to shared memory that do not wait. engine/hip/fma_instructions.hpp has the same for AMD.
#pragma once

#include <cstdint>

#include "engine/cuda/hopper.cuh"
#include "numerics/bf16.hpp"

namespace samebits::engine::cuda::fma_leaf {

inline constexpr int kSharedLevels = 2;        // of bf16 nodes of tiles: leaves and pairs of them
inline constexpr int kTilesResident = 2;       // blocks of a multiprocessor
inline constexpr int kReadsAtOnce = 8;         // of pending nodes: no more than registers
inline constexpr bool kStagesInShared = true;  // the chunk under way of tiles_load.cuh

// The two elements of a word, lower half first.
// A byte permutation and not a shift: of a shift the compiler makes a multiplication, on the pipe of the
// fused multiply-adds, which is the one that is short.
__device__ inline float low_of(std::uint32_t word) {
  std::uint32_t low;
  asm("prmt.b32 %0, %1, 0, 0x1044;" : "=r"(low) : "r"(word));
  return __uint_as_float(low);
}
// acc = fma(a, b, acc), in the order written as far as the assembler keeps it: where each shares an operand
// with the one before, two registers are read and not three.
__device__ inline void fma_here(float& acc, float a, float b) {
  asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(acc) : "f"(a), "f"(b));
}

// Nearest even, subnormals kept; a NaN stays one, of another pattern than the stored kind.
__device__ inline std::uint32_t round_two(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// node(lower + upper), twice. One rounding to bf16 gives what f32 and then bf16 give: the sum of two bf16 is
// rounded to 24 bits first, and 24 >= 2 * 8 + 2; below the normal range both are exact.
// tests/hardware/fma_check compares all 2^32 pairs.
__device__ inline std::uint32_t add_two(std::uint32_t lower, std::uint32_t upper) {
  std::uint32_t word;
  asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(word) : "r"(lower), "r"(upper));
  return word;
}

// The bits of x in a register of their own: the compiler would else keep a node where its accumulator was,
// and pay for it with moves among the chains.
__device__ inline std::uint32_t bits_apart(float x) {
  std::uint32_t word;
  asm volatile("mov.b32 %0, %1;" : "=r"(word) : "f"(x));
  return word;
}

// What a register holds is not needed.
__device__ inline void forget(float& value) { asm volatile("" : "=f"(value)); }

// The larger halves.
__device__ inline std::uint32_t most_of_halves(std::uint32_t a, std::uint32_t b) { return __vmaxu2(a, b); }

// Reads of shared memory at an address of 32 bits, in the order in which they are written.
__device__ inline float read_one(std::uint32_t from) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from));
  return value;
}
__device__ inline float read_bf16(std::uint32_t from) {
  numerics::Bf16 value;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(value) : "r"(from));
  return numerics::widen(value);
}
__device__ inline uint2 read_two(std::uint32_t from) {
  uint2 words;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(from));
  return words;
}
__device__ inline uint4 read_words(std::uint32_t from) {
  uint4 words;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(from));
  return words;
}
__device__ inline void read_four(float& a, float& b, float& c, float& d, std::uint32_t from) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "r"(from));
}

// 16 bytes to shared memory without waiting, the first `bytes` of them read and the rest +0.
__device__ inline void copy_16(std::uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
// Eight elements under way, of which those beyond `elements` are +0: in shared memory here.
__device__ inline void stage_16(uint4* shared, uint4&, const numerics::Bf16* from, int elements) {
  copy_16(shared_address(shared), from, elements * 2);
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

__device__ inline void wait_copies() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

}  // namespace samebits::engine::cuda::fma_leaf
