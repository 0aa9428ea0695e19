// A place in a stream of the device that is current when it is made. Included where a build has CUDA or HIP.
#pragma once

#include "transport/gpu_runtime.hpp"

namespace samebits::transport {

class CudaEvent {
 public:
  CudaEvent();
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(cudaStream_t stream) const;
  void wait() const;                     // returns when what stands before it is done
  void hold(cudaStream_t stream) const;  // what follows on the stream comes after it
  bool passed() const;                   // it is done
  bool ahead() const;                    // it is not

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace samebits::transport
