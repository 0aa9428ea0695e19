// A build with CUDA or HIP: device memory, and host memory, which tests use.
#include <cstring>
#include <new>

#include "gpu/check.hpp"
#include "transport/cuda_event.hpp"
#include "transport/cuda_place.hpp"
#include "transport/nccl_device.hpp"

namespace samebits::transport::nccl {
namespace {

bool captures(Queue queue) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_of(queue), &status), "asking whether a stream is captured");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

int current_device(MemorySpace space) {
  int device = 0;
  if (space != MemorySpace::host) check(cudaGetDevice(&device), "asking for the current device");
  return device;
}

void make_current(int device, MemorySpace space) {
  if (space != MemorySpace::host) check(cudaSetDevice(device), "choosing a device");
}

void leave_captures_alone(MemorySpace space) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  if (space != MemorySpace::host)
    check(cudaThreadExchangeStreamCaptureMode(&mode), "choosing how captures are met");
}

Scratch::Scratch(std::size_t bytes, int device, MemorySpace space) : space_(space), device_(device) {
  if (space == MemorySpace::host) {
    data_ = static_cast<unsigned char*>(::operator new(bytes));
    return;
  }
  const DeviceScope scope(device, kIfCurrent);
  void* data = nullptr;
  check(cudaMalloc(&data, bytes), "allocating device memory for a communicator");
  data_ = static_cast<unsigned char*>(data);
}

Scratch::~Scratch() {
  if (space_ == MemorySpace::host) {
    ::operator delete(data_);
  } else {
    static_cast<void>(cudaFree(data_));
  }
}

void Scratch::write(std::size_t at, const void* from, std::size_t bytes) {
  if (space_ == MemorySpace::host) {
    std::memcpy(data_ + at, from, bytes);
  } else {
    const DeviceScope scope(device_, kIfCurrent);
    check(cudaMemcpy(data_ + at, from, bytes, cudaMemcpyHostToDevice), "writing device memory");
  }
}

void Scratch::read(std::size_t at, void* to, std::size_t bytes) const {
  if (space_ == MemorySpace::host) {
    std::memcpy(to, data_ + at, bytes);
  } else {
    const DeviceScope scope(device_, kIfCurrent);
    check(cudaMemcpy(to, data_ + at, bytes, cudaMemcpyDeviceToHost), "reading device memory");
  }
}

struct Probe::Events {
  explicit Events(int of) : device(of) {}

  const int device;
  bool captured = false;        // the newest work; it leaves the events as they are
  cudaStream_t last = nullptr;  // where `after` was recorded
  CudaEvent before, after;
};

Probe::Probe(int device, MemorySpace space) {
  if (space == MemorySpace::host) return;
  const DeviceScope scope(device, kIfCurrent);
  events_ = std::make_unique<Events>(device);
}

Probe::~Probe() = default;

void Probe::before(Queue queue) {
  if (!events_) return;
  const DeviceScope scope(events_->device, kIfCurrent);
  events_->captured = captures(queue);
  if (events_->captured) return;
  if (stream_of(queue) != events_->last) events_->after.hold(stream_of(queue));
  events_->before.record(stream_of(queue));
}

void Probe::after(Queue queue) {
  if (!events_ || events_->captured) return;
  const DeviceScope scope(events_->device, kIfCurrent);
  events_->after.record(stream_of(queue));
  events_->last = stream_of(queue);
}

bool Probe::running() const { return events_ && events_->before.passed() && events_->after.ahead(); }

}  // namespace samebits::transport::nccl
