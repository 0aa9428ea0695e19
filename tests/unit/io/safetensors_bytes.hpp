// Safetensors files made by hand, legal or not.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace samebits::test {

inline std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
  return bytes;
}

inline std::string safetensors_bytes(std::string_view header, std::string_view data = {}) {
  return length_bytes(header.size()) + std::string(header) + std::string(data);
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace samebits::test
