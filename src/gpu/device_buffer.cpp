#include "gpu/device_buffer.hpp"

#include <fmt/format.h>

#include <utility>

#include "gpu/check.hpp"
#include "gpu/device_scope.hpp"
#include "samebits/error.hpp"

namespace samebits::SAMEBITS_GPU_NAMES {

void* allocate_device(int device, std::size_t bytes) {
  const DeviceScope scope(device);
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, bytes > 0 ? bytes : 1);
  if (code == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free device memory");
    throw Error(ErrorCode::out_of_memory,
                fmt::format("no {} bytes of memory on {} device {}: {} of {} are free", bytes, kRuntimeName,
                            device, free, total));
  }
  check(code, "allocating device memory");
  return data;
}

DeviceBuffer::DeviceBuffer(int device, std::size_t bytes)
    : data_(allocate_device(device, bytes)), bytes_(bytes) {}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) static_cast<void>(cudaFree(data_));
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace samebits::SAMEBITS_GPU_NAMES
