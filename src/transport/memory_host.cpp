// A build with neither CUDA nor HIP: host memory alone.
#include <cstring>

#include "transport/memory.hpp"

namespace samebits::transport {

MemorySpace device_space() { return MemorySpace::host; }

void copy(void* to, const void* from, std::size_t bytes, MemorySpace, Queue) { std::memcpy(to, from, bytes); }

bool lie_together(const void*, const void*, MemorySpace) { return true; }

void wait_for(const void*, MemorySpace, Queue) {}

std::unique_ptr<HostLink> make_host_link(MemorySpace, std::size_t) { return nullptr; }

}  // namespace samebits::transport
