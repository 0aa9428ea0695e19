// The bf16 that a random word becomes.
#pragma once

#include <bit>
#include <cstdint>

namespace samebits::io {

// Sign and fraction are bits 31 to 24 of the word; each trailing zero of the other 24 halves the magnitude,
// so the exponent field is `largest_exponent` minus their count. The count is read off the lowest one bit
// converted to f32, which is exact (a power of two up to 2^24) and, unlike a bit scan, something that every
// vector unit does.
inline std::uint16_t seeded_element(std::uint32_t word, std::uint32_t largest_exponent) {
  const std::uint32_t marked = word | 0x01000000u;  // 24 zeros at most
  const auto lowest = static_cast<std::int32_t>(marked & (0u - marked));
  const std::uint32_t zeros = (std::bit_cast<std::uint32_t>(static_cast<float>(lowest)) >> 23) - 127u;
  const std::uint32_t exponent = largest_exponent - zeros;
  return static_cast<std::uint16_t>(((word >> 16) & 0x8000u) | (exponent << 7) | ((word >> 24) & 0x7Fu));
}

}  // namespace samebits::io
