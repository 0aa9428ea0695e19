// A build with CUDA: host memory, and device memory on the caller's streams.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>

#include "samebits/error.hpp"
#include "transport/memory.hpp"

namespace samebits::transport {
namespace {

void check(cudaError_t code, const char* tried) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // not left for whoever asks next
  throw Error(ErrorCode::environment, fmt::format("{}: CUDA answers {} ({})", tried, cudaGetErrorName(code),
                                                  cudaGetErrorString(code)));
}

cudaStream_t stream_of(Queue queue) { return static_cast<cudaStream_t>(queue.handle); }

// The device that holds an address is current for the length of a scope: the null stream is the current
// device's.
class DeviceOf {
 public:
  explicit DeviceOf(const void* address) {
    cudaPointerAttributes attributes{};
    check(cudaPointerGetAttributes(&attributes, address), "asking where an address lies");
    if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged) {
      throw Error(ErrorCode::invalid_argument, "a collective over device memory was given a host address");
    }
    check(cudaGetDevice(&before_), "asking for the current device");
    if (before_ == attributes.device) return;
    check(cudaSetDevice(attributes.device), "choosing a device");
    moved_ = true;
  }
  ~DeviceOf() {
    if (moved_) static_cast<void>(cudaSetDevice(before_));
  }
  DeviceOf(const DeviceOf&) = delete;
  DeviceOf& operator=(const DeviceOf&) = delete;

 private:
  int before_ = 0;
  bool moved_ = false;
};

}  // namespace

bool can_reach(MemorySpace space) { return space == MemorySpace::host || space == MemorySpace::cuda; }

void copy(void* to, const void* from, std::size_t bytes, MemorySpace space, Queue queue) {
  if (space == MemorySpace::host) {
    std::memcpy(to, from, bytes);
    return;
  }
  const DeviceOf device(to);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(queue)), "copying between ranks");
}

void wait_for(const void* address, MemorySpace space, Queue queue) {
  if (space == MemorySpace::host) return;
  const DeviceOf device(address);
  check(cudaStreamSynchronize(stream_of(queue)), "waiting for a rank's stream");
}

}  // namespace samebits::transport
