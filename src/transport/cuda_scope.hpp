// The runtime's answers as samebits::Error, and which device is current. Included where a build has CUDA or
// HIP.
#pragma once

#include "samebits/memory.hpp"
#include "transport/gpu_runtime.hpp"

namespace samebits::transport {

// Throws Error(environment), or Error(out_of_memory), naming what was tried and what the runtime answered.
void check_cuda(cudaError_t code, const char* tried);

inline cudaStream_t stream_of(Queue queue) { return static_cast<cudaStream_t>(queue.handle); }

// The device that holds an address. Throws Error(invalid_argument) for an address of the host.
int device_of(const void* address);

// A device is current for the length of a scope: the null stream is the current device's.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
  bool moved_ = false;
};

// A place in a stream of the device that is current when it is made.
class CudaEvent {
 public:
  CudaEvent();
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(cudaStream_t stream) const;
  void wait() const;    // returns when what stands before it is done
  bool passed() const;  // it is done
  bool ahead() const;   // it is not

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace samebits::transport
