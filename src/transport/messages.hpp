// Bytes from or for one rank.
#pragma once

#include <cstddef>

namespace samebits::transport {

struct Incoming {
  int rank;
  void* data;
  std::size_t bytes;
};
struct Outgoing {
  int rank;
  const void* data;
  std::size_t bytes;
};

}  // namespace samebits::transport
