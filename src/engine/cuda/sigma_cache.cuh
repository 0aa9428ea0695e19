// sigma in shared memory for the gates that occur: magnitudes from 2^-12 to 2^7, both signs. The others are
// read from the table of all 65,536.
#pragma once

#include <cstdint>

namespace samebits::engine::cuda {

struct SigmaCache {
  static constexpr unsigned kFirst = 115u << 7;   // bit pattern of 2^-12
  static constexpr unsigned kCount = 19u * 128u;  // magnitudes
  static constexpr int kBytes = 2 * kCount * sizeof(float);

  const float* shared = nullptr;
  const float* table = nullptr;

  // By `threads` threads of the block, which synchronise afterwards.
  __device__ static void fill(float* to, const float* table, int threads) {
    for (unsigned i = threadIdx.x; i < 2 * kCount; i += static_cast<unsigned>(threads)) {
      to[i] = table[(i < kCount ? 0u : 0x8000u) + kFirst + i % kCount];
    }
  }
  __device__ float of(std::uint16_t gate) const {
    const unsigned at = (gate & 0x7FFFu) - kFirst;
    // Read in any case, so that the gates of a thread wait for each other no longer than memory does.
    float value = shared[(at < kCount ? at : 0u) + (gate >> 15) * kCount];
    if (at >= kCount) value = __ldg(table + gate);
    return value;
  }
};

}  // namespace samebits::engine::cuda
