// A build with CUDA or HIP: host memory, and device memory on the caller's streams.
#include <cstring>
#include <vector>

#include "gpu/check.hpp"
#include "transport/cuda_event.hpp"
#include "transport/cuda_place.hpp"
#include "transport/memory.hpp"

namespace samebits::transport {
namespace {

class CudaLink final : public HostLink {
 public:
  explicit CudaLink(std::size_t marks) : marks_(marks) {}

  // Pinned, and for every device.
  HostBuffer allocate(std::size_t bytes) override {
    void* data = nullptr;
    check(cudaHostAlloc(&data, bytes, cudaHostAllocPortable), "allocating pinned host memory");
    return {static_cast<unsigned char*>(data), [](unsigned char* p) { static_cast<void>(cudaFreeHost(p)); }};
  }

  void to_host(void* host, const void* there, std::size_t bytes, Queue queue) override {
    const DeviceScope scope(device_of(there), kIfCurrent);
    check(cudaMemcpyAsync(host, there, bytes, cudaMemcpyDeviceToHost, stream_of(queue)),
          "copying to the host");
  }

  void to_device(void* there, const void* host, std::size_t bytes, Queue queue) override {
    const DeviceScope scope(device_of(there), kIfCurrent);
    check(cudaMemcpyAsync(there, host, bytes, cudaMemcpyHostToDevice, stream_of(queue)),
          "copying from the host");
  }

  void mark(std::size_t which, const void* there, Queue queue) override {
    Mark& one = marks_[which];
    const int device = device_of(there);
    const DeviceScope scope(device, kIfCurrent);
    if (one.device != device) one = {device, std::make_unique<CudaEvent>()};
    one.event->record(stream_of(queue));
  }

  void wait(std::size_t which) override {
    if (marks_[which].event) marks_[which].event->wait();
  }

 private:
  struct Mark {
    int device = -1;
    std::unique_ptr<CudaEvent> event;  // of that device
  };
  std::vector<Mark> marks_;
};

}  // namespace

MemorySpace device_space() { return kMemorySpace; }

bool lie_together(const void* a, const void* b, MemorySpace space) {
  return space == MemorySpace::host || device_of(a) == device_of(b);
}

void copy(void* to, const void* from, std::size_t bytes, MemorySpace space, Queue queue) {
  if (space == MemorySpace::host) {
    std::memcpy(to, from, bytes);
    return;
  }
  const DeviceScope scope(device_of(to), kIfCurrent);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(queue)), "copying between ranks");
}

void wait_for(const void* address, MemorySpace space, Queue queue) {
  if (space == MemorySpace::host) return;
  const DeviceScope scope(device_of(address), kIfCurrent);
  check(cudaStreamSynchronize(stream_of(queue)), "waiting for a rank's stream");
}

std::unique_ptr<HostLink> make_host_link(MemorySpace space, std::size_t marks) {
  return space == kMemorySpace ? std::make_unique<CudaLink>(marks) : nullptr;
}

}  // namespace samebits::transport
