// Where bytes lie, and on what queue work on them is ordered. Both are names: whoever owns the memory knows
// more.
#pragma once

#include <cstdint>
#include <string>

namespace samebits {

enum class MemorySpace : std::uint8_t { host, cuda, hip };

constexpr const char* name_of(MemorySpace space) {
  return space == MemorySpace::host ? "cpu" : space == MemorySpace::cuda ? "cuda" : "hip";
}

struct Device {
  MemorySpace space = MemorySpace::host;
  int index = 0;
  bool operator==(const Device&) const = default;
};

// "cpu", "cuda:1"
inline std::string name_of(const Device& device) {
  if (device.space == MemorySpace::host) return name_of(device.space);
  return std::string(name_of(device.space)) + ":" + std::to_string(device.index);
}

// The caller's stream, or null: for host memory, and for a device's default stream.
struct Queue {
  void* handle = nullptr;
};

}  // namespace samebits
