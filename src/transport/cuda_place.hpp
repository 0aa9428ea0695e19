// Whose a queue and an address are, and that device for the length of a scope. Included where a build has
// CUDA or HIP.
#pragma once

#include "gpu/device_scope.hpp"
#include "samebits/memory.hpp"
#include "transport/gpu_runtime.hpp"

namespace samebits::transport {

inline cudaStream_t stream_of(Queue queue) { return static_cast<cudaStream_t>(queue.handle); }

// The device that holds an address. Throws Error(invalid_argument) for an address of the host.
int device_of(const void* address);

// Transports make the runtime's calls alone.
inline constexpr auto kIfCurrent = DeviceScope::IfCurrent::leave;

}  // namespace samebits::transport
