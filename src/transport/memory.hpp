// Bytes of one memory space, moved on a queue and waited for; and the way between a device and the host.
#pragma once

#include <cstddef>
#include <memory>

#include "samebits/memory.hpp"

namespace samebits::transport {

// Where the device memory lies that this build moves: CUDA's, or HIP's. The host's where it moves none.
MemorySpace device_space();

// Whether this build moves bytes there.
inline bool can_reach(MemorySpace space) { return space == MemorySpace::host || space == device_space(); }

// Copies on the queue; both addresses lie in `space`, and do not overlap. Host memory is done on return.
void copy(void* to, const void* from, std::size_t bytes, MemorySpace space, Queue queue);

// Whether kernels that run where one of them lies reach the other.
bool lie_together(const void* a, const void* b, MemorySpace space);

// Waits until the queue's work is done: what it wrote can be read by anybody, and what it read overwritten.
// `address` is one of those that the work touches; it says which device the null queue belongs to.
void wait_for(const void* address, MemorySpace space, Queue queue);

// Host memory that a queue's copies reach by themselves.
using HostBuffer = std::unique_ptr<unsigned char, void (*)(unsigned char*)>;

// What a transport of host memory asks of a device, to carry its bytes. Copies are enqueued. A mark is a
// place in a queue; there are as many as were asked for, each used again and again.
class HostLink {
 public:
  virtual ~HostLink() = default;
  virtual HostBuffer allocate(std::size_t bytes) = 0;
  virtual void to_host(void* host, const void* there, std::size_t bytes, Queue queue) = 0;
  virtual void to_device(void* there, const void* host, std::size_t bytes, Queue queue) = 0;
  // After what was enqueued; `there` is an address of the device that the null queue belongs to.
  virtual void mark(std::size_t which, const void* there, Queue queue) = 0;
  virtual void wait(std::size_t which) = 0;  // for the newest place of this mark, if it was ever set
};

// Null where this build does not reach the space, and for host memory.
std::unique_ptr<HostLink> make_host_link(MemorySpace space, std::size_t marks);

}  // namespace samebits::transport
