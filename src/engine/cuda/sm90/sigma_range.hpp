// The gates whose sigma differs from that of their neighbours: below, sigma is that of the smallest, beyond,
// that of the largest. A unit test holds this against all 65,536 values of every kind.
#pragma once

#include <cstdint>

namespace samebits::engine::cuda {

// Magnitudes, as bit patterns of bf16: from just below 2^-24 to 2^7.
inline constexpr std::uint32_t kLeastGate = ((127u - 24u) << 7) - 1, kGreatestGate = (127u + 7u) << 7;

}  // namespace samebits::engine::cuda
