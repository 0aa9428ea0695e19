// HIP's runtime under the names that CUDA's has, as far as the shared sources use it. A name means the same
// in both; where the two differ there is a name of our own, in gpu/cuda_names.hpp too.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>

#include "samebits/memory.hpp"

namespace samebits::rocm_names {

inline constexpr const char* kRuntimeName = "HIP";
inline constexpr MemorySpace kMemorySpace = MemorySpace::hip;

using cudaError_t = hipError_t;
using cudaStream_t = hipStream_t;
using cudaEvent_t = hipEvent_t;
using cudaDeviceProp = hipDeviceProp_t;
using cudaMemcpyKind = hipMemcpyKind;
using cudaStreamCaptureStatus = hipStreamCaptureStatus;
using cudaStreamCaptureMode = hipStreamCaptureMode;

inline constexpr auto cudaSuccess = hipSuccess;
inline constexpr auto cudaErrorMemoryAllocation = hipErrorOutOfMemory;
inline constexpr auto cudaErrorNotReady = hipErrorNotReady;
inline constexpr auto cudaMemcpyHostToDevice = hipMemcpyHostToDevice;
inline constexpr auto cudaMemcpyDeviceToHost = hipMemcpyDeviceToHost;
inline constexpr auto cudaMemcpyDeviceToDevice = hipMemcpyDeviceToDevice;
inline constexpr auto cudaMemcpyDefault = hipMemcpyDefault;
inline constexpr unsigned cudaStreamNonBlocking = hipStreamNonBlocking;
inline constexpr unsigned cudaEventDisableTiming = hipEventDisableTiming;
inline constexpr unsigned cudaHostAllocPortable = hipHostMallocPortable;
inline constexpr auto cudaStreamCaptureStatusNone = hipStreamCaptureStatusNone;
inline constexpr auto cudaStreamCaptureModeRelaxed = hipStreamCaptureModeRelaxed;

inline cudaError_t cudaGetLastError() { return hipGetLastError(); }
inline const char* cudaGetErrorName(cudaError_t code) { return hipGetErrorName(code); }
inline const char* cudaGetErrorString(cudaError_t code) { return hipGetErrorString(code); }
inline cudaError_t cudaRuntimeGetVersion(int* version) { return hipRuntimeGetVersion(version); }
inline cudaError_t cudaDriverGetVersion(int* version) { return hipDriverGetVersion(version); }

inline cudaError_t cudaGetDeviceCount(int* count) { return hipGetDeviceCount(count); }
inline cudaError_t cudaGetDevice(int* device) { return hipGetDevice(device); }
inline cudaError_t cudaSetDevice(int device) { return hipSetDevice(device); }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return hipGetDeviceProperties(properties, device);
}

inline cudaError_t cudaMalloc(void** data, std::size_t bytes) { return hipMalloc(data, bytes); }
inline cudaError_t cudaFree(void* data) { return hipFree(data); }
inline cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned flags) {
  return hipHostMalloc(data, bytes, flags);
}
inline cudaError_t cudaFreeHost(void* data) { return hipHostFree(data); }
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return hipMemGetInfo(free, total);
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return hipMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  return hipMemcpyAsync(to, from, bytes, kind, stream);
}
inline cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                     std::size_t width, std::size_t height, cudaMemcpyKind kind,
                                     cudaStream_t stream) {
  return hipMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, stream);
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return hipStreamCreateWithFlags(stream, flags);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { return hipStreamDestroy(stream); }
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return hipStreamSynchronize(stream); }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return hipStreamWaitEvent(stream, event, flags);
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return hipStreamIsCapturing(stream, status);
}
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return hipThreadExchangeStreamCaptureMode(mode);
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return hipEventCreateWithFlags(event, flags);
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return hipEventDestroy(event); }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return hipEventRecord(event, stream);
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) { return hipEventSynchronize(event); }
inline cudaError_t cudaEventQuery(cudaEvent_t event) { return hipEventQuery(event); }

// Where an address lies. HIP calls it an error to ask after memory of the host that it was never shown, and
// has named the kind of memory differently since 6.0.
struct AddressPlace {
  bool device = false, managed = false;
  int index = 0;
};
template <class Attributes>
inline bool is_device_memory(const Attributes& attributes) {
  if constexpr (requires { attributes.type; }) {
    return attributes.type == hipMemoryTypeDevice;
  } else {
    return attributes.memoryType == hipMemoryTypeDevice;
  }
}
inline cudaError_t place_of(const void* address, AddressPlace& place) {
  place = {};
  hipPointerAttribute_t attributes{};
  const hipError_t code = hipPointerGetAttributes(&attributes, address);
  if (code == hipErrorInvalidValue) {
    static_cast<void>(hipGetLastError());
    return hipSuccess;
  }
  place = {is_device_memory(attributes), attributes.isManaged != 0, attributes.device};
  return code;
}

}  // namespace samebits::rocm_names
