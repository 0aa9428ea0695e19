// sigma in shared memory, for the gates of sigma_range.hpp of either sign; others are moved to the end of the
// range. A NaN becomes a number here, and stays a NaN in every product with the gate itself.
#pragma once

#include <cstdint>

#include "engine/cuda/hopper.cuh"
#include "engine/cuda/sm90/sigma_range.hpp"

namespace samebits::engine::cuda {

struct SigmaCache {
  static constexpr std::uint32_t kCount = kGreatestGate - kLeastGate + 1;  // magnitudes
  static constexpr int kBytes = 2 * kCount * sizeof(float);

  std::uint32_t begin = 0;  // shared address of magnitude 0, were it there

  __device__ explicit SigmaCache(const float* shared) : begin(shared_address(shared) - kLeastGate * 4) {}

  // By `threads` threads of the block, which synchronise afterwards.
  __device__ static void fill(float* to, const float* table, int threads) {
    for (unsigned i = threadIdx.x; i < 2 * kCount; i += static_cast<unsigned>(threads)) {
      to[i] = table[(i < kCount ? 0u : 0x8000u) + kLeastGate + i % kCount];
    }
  }
  // Of two gates in a word.
  struct Two {
    float of[2];
  };
  __device__ Two of(std::uint32_t gates) const {
    const std::uint32_t magnitudes =
        __vminu2(__vmaxu2(gates & 0x7FFF7FFFu, kLeastGate * 0x10001u), kGreatestGate * 0x10001u);
    const std::uint32_t places = magnitudes + ((gates >> 15) & 0x00010001u) * kCount;
    return {{read(begin + (places & 0xFFFFu) * 4), read(begin + (places >> 16) * 4)}};
  }

 private:
  __device__ static float read(std::uint32_t address) {
    float value;
    asm("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address));
    return value;
  }
};

}  // namespace samebits::engine::cuda
