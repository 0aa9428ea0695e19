#include "transport/cuda_scope.hpp"

#include <fmt/format.h>

#include "samebits/error.hpp"

namespace samebits::transport {

void check_cuda(cudaError_t code, const char* tried) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // not left for whoever asks next
  throw Error(code == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::environment,
              fmt::format("{}: {} answers {} ({})", tried, kRuntimeName, cudaGetErrorName(code),
                          cudaGetErrorString(code)));
}

int device_of(const void* address) {
  AddressPlace place;
  check_cuda(place_of(address, place), "asking where an address lies");
  if (!place.device && !place.managed)
    throw Error(ErrorCode::invalid_argument, "a collective over device memory was given a host address");
  return place.index;
}

DeviceScope::DeviceScope(int device) {
  check_cuda(cudaGetDevice(&before_), "asking for the current device");
  if (before_ == device) return;
  check_cuda(cudaSetDevice(device), "choosing a device");
  moved_ = true;
}

DeviceScope::~DeviceScope() {
  if (moved_) static_cast<void>(cudaSetDevice(before_));
}

CudaEvent::CudaEvent() {
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
}

CudaEvent::~CudaEvent() { static_cast<void>(cudaEventDestroy(event_)); }

void CudaEvent::record(cudaStream_t stream) const {
  check_cuda(cudaEventRecord(event_, stream), "recording an event");
}

void CudaEvent::wait() const { check_cuda(cudaEventSynchronize(event_), "waiting for a rank's stream"); }

bool CudaEvent::passed() const { return cudaEventQuery(event_) == cudaSuccess; }

bool CudaEvent::ahead() const { return cudaEventQuery(event_) == cudaErrorNotReady; }

}  // namespace samebits::transport
