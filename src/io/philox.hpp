// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): a counter and a key in, four
// words out.
#pragma once

#include <cstdint>

namespace samebits::io {

struct PhiloxKey {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

// Counters made at once. They do not depend on one another, so that loops over lanes vectorise; fewer lanes
// would be unrolled by GCC before it gets there, at a third of the speed.
inline constexpr int kPhiloxLanes = 32;

struct PhiloxWords {
  std::uint32_t word[4][kPhiloxLanes];
};

// The words of the counters (c low, c high, third, 0) for c = first, first + 1, ...
inline void philox4x32_10(std::uint64_t first, std::uint32_t third, PhiloxKey key, PhiloxWords& out) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  auto& c = out.word;
  for (int lane = 0; lane < kPhiloxLanes; ++lane) {
    const std::uint64_t counter = first + static_cast<std::uint64_t>(lane);
    c[0][lane] = static_cast<std::uint32_t>(counter);
    c[1][lane] = static_cast<std::uint32_t>(counter >> 32);
    c[2][lane] = third;
    c[3][lane] = 0;
  }
  for (int round = 0; round < 10; ++round) {
    for (int lane = 0; lane < kPhiloxLanes; ++lane) {
      const std::uint64_t product0 = kMultiplier0 * c[0][lane];
      const std::uint64_t product1 = kMultiplier1 * c[2][lane];
      c[0][lane] = static_cast<std::uint32_t>(product1 >> 32) ^ c[1][lane] ^ key.low;
      c[1][lane] = static_cast<std::uint32_t>(product1);
      c[2][lane] = static_cast<std::uint32_t>(product0 >> 32) ^ c[3][lane] ^ key.high;
      c[3][lane] = static_cast<std::uint32_t>(product0);
    }
    key.low += kWeyl0;
    key.high += kWeyl1;
  }
}

}  // namespace samebits::io
