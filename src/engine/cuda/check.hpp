// CUDA results as samebits::Error, and the device as a scope.
#pragma once

#include <cstddef>

#include "engine/cuda/runtime.hpp"

namespace samebits::engine::SAMEBITS_GPU {

// Throws Error(environment), or Error(out_of_memory), naming what was tried and what CUDA answered.
void check(cudaError_t code, const char* tried);

// The error of the launch just made, if any.
void check_launch(const char* kernel);

// Makes a device current on this thread for the length of a scope.
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

// Device memory that this process owns.
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

void* allocate_device(int device, std::size_t bytes);

}  // namespace samebits::engine::SAMEBITS_GPU
