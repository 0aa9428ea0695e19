// What the engine knows of its device, and what it keeps there for all blocks.
#pragma once

#include <memory>

#include "engine/cuda/runtime.hpp"
#include "gpu/device_buffer.hpp"
#include "samebits/contract.hpp"

namespace samebits::engine::SAMEBITS_GPU {

class CudaDeviceState {
 public:
  // Throws Error(environment) when the device is missing or of another kind (kServed).
  explicit CudaDeviceState(int index);

  int index() const { return index_; }
  int multiprocessors() const { return multiprocessors_; }
  const char* name() const { return name_; }

  // sigma of every bf16, on the device, indexed by bit pattern.
  const float* sigma(Sigma kind) const { return sigma_.as<float>() + (kind == Sigma::cuda ? 65536 : 0); }

 private:
  int index_;
  int multiprocessors_ = 0;
  char name_[256] = {};
  DeviceBuffer sigma_;
};

}  // namespace samebits::engine::SAMEBITS_GPU
