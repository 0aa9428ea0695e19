#include "transport/cuda_event.hpp"

#include "gpu/check.hpp"

namespace samebits::transport {

CudaEvent::CudaEvent() {
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
}

CudaEvent::~CudaEvent() { static_cast<void>(cudaEventDestroy(event_)); }

void CudaEvent::record(cudaStream_t stream) const {
  check(cudaEventRecord(event_, stream), "recording an event");
}

void CudaEvent::wait() const { check(cudaEventSynchronize(event_), "waiting for a rank's stream"); }

void CudaEvent::hold(cudaStream_t stream) const {
  check(cudaStreamWaitEvent(stream, event_, 0), "ordering a stream behind another");
}

bool CudaEvent::passed() const { return cudaEventQuery(event_) == cudaSuccess; }

bool CudaEvent::ahead() const { return cudaEventQuery(event_) == cudaErrorNotReady; }

}  // namespace samebits::transport
