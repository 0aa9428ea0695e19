// A build with CUDA: host memory, and device memory on the caller's streams.
#include <cstring>

#include "transport/cuda_scope.hpp"
#include "transport/memory.hpp"

namespace samebits::transport {
bool can_reach(MemorySpace space) { return space == MemorySpace::host || space == MemorySpace::cuda; }

void copy(void* to, const void* from, std::size_t bytes, MemorySpace space, Queue queue) {
  if (space == MemorySpace::host) {
    std::memcpy(to, from, bytes);
    return;
  }
  const DeviceScope scope(device_of(to));
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(queue)), "copying between ranks");
}

void wait_for(const void* address, MemorySpace space, Queue queue) {
  if (space == MemorySpace::host) return;
  const DeviceScope scope(device_of(address));
  check_cuda(cudaStreamSynchronize(stream_of(queue)), "waiting for a rank's stream");
}

}  // namespace samebits::transport
