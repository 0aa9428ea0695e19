// Device memory that this process owns.
#pragma once

#include <cstddef>

#include "gpu/runtime.hpp"

namespace samebits::SAMEBITS_GPU_NAMES {

// Throws Error(out_of_memory), saying how much is free, where there is too little.
void* allocate_device(int device, std::size_t bytes);

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(int device, std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace samebits::SAMEBITS_GPU_NAMES
