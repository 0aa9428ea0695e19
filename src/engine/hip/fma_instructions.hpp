// engine/cuda/fma/instructions.cuh for AMD: the same functions in C++, which the compiler has instructions
// for, and shared memory by its 32-bit addresses.
#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>

#include "numerics/bf16.hpp"

namespace samebits::engine::hip::fma_leaf {

inline constexpr int kSharedLevels = 0;         // 64 KB of LDS hold no pending nodes beside the operands
inline constexpr int kTilesResident = 1;        // waves of a SIMD: all 512 registers
inline constexpr int kReadsAtOnce = 4;          // of pending nodes: no more than registers
inline constexpr bool kStagesInShared = false;  // registers are plenty, and LDS is not

__device__ inline float low_of(std::uint32_t word) { return __uint_as_float(word << 16); }

__device__ inline void fma_here(float& acc, float a, float b) { acc = __builtin_fmaf(a, b, acc); }

__device__ inline std::uint32_t round_two(float low, float high) {
  return std::uint32_t{numerics::round_bf16(low)} | std::uint32_t{numerics::round_bf16(high)} << 16;
}

// node(lower + upper), twice.
__device__ inline std::uint32_t add_two(std::uint32_t lower, std::uint32_t upper) {
  const auto high = [](std::uint32_t word) { return __uint_as_float(word & 0xFFFF0000u); };
  return round_two(low_of(lower) + low_of(upper), high(lower) + high(upper));
}

__device__ inline std::uint32_t bits_apart(float x) { return __float_as_uint(x); }

__device__ inline void forget(float& value) { value = __builtin_nondeterministic_value(value); }

__device__ inline std::uint32_t most_of_halves(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t low = max(a & 0xFFFFu, b & 0xFFFFu), high = max(a >> 16, b >> 16);
  return low | high << 16;
}

// Shared memory.
template <class T>
using Shared = __attribute__((address_space(3))) T;

__device__ inline std::uint32_t shared_address(const void* data) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>((Shared<const char>*)data));
}
__device__ inline void read_four(float& a, float& b, float& c, float& d, std::uint32_t from) {
  using Four = float __attribute__((ext_vector_type(4)));
  const Four four = *reinterpret_cast<Shared<const Four>*>(from);
  a = four.x, b = four.y, c = four.z, d = four.w;
}

// Eight elements under way, of which those beyond `elements` are +0: in registers here.
__device__ inline void stage_16(uint4*, uint4& held, const numerics::Bf16* from, int elements) {
  if (elements == 8) {
    held = *reinterpret_cast<const uint4*>(from);
    return;
  }
  std::uint32_t word[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < elements) word[i / 2] |= std::uint32_t{from[i]} << (i % 2 * 16);
  }
  held = make_uint4(word[0], word[1], word[2], word[3]);
}
__device__ inline void commit_copies() {}  // registers wait for themselves
__device__ inline void wait_copies() {}

}  // namespace samebits::engine::hip::fma_leaf
