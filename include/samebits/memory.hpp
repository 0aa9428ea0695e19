// Where bytes lie, and on what queue work on them is ordered. Both are names: whoever owns the memory knows
// more.
#pragma once

#include <cstdint>

namespace samebits {

enum class MemorySpace : std::uint8_t { host, cuda, hip };

struct Device {
  MemorySpace space = MemorySpace::host;
  int index = 0;
  bool operator==(const Device&) const = default;
};

// The caller's stream, or null: for host memory, and for a device's default stream.
struct Queue {
  void* handle = nullptr;
};

}  // namespace samebits
