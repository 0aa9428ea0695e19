#include "transport/peer_memory.hpp"

#include <cstring>

#include "transport/cuda_place.hpp"

namespace samebits::transport::nccl {
namespace {

// Memory of ranks that are processes.
class OpenedWindow final : public Window {
 public:
  OpenedWindow(std::shared_ptr<void> memory, int device, int rank, const std::vector<Offer>& offers)
      : memory_(std::move(memory)), device_(device) {
    const DeviceScope scope(device_);
    opened_.reserve(offers.size());
    for (std::size_t r = 0; r < offers.size(); ++r) {
      if (static_cast<int>(r) == rank) {
        of_rank_.push_back(memory_.get());
      } else {
        opened_.emplace_back(offers[r].handle);
        of_rank_.push_back(opened_.back().data());
      }
    }
  }
  // This rank's own stages may still be writing.
  ~OpenedWindow() override {
    try {
      const DeviceScope scope(device_);
      static_cast<void>(cudaDeviceSynchronize());
      opened_.clear();
    } catch (const Error&) {  // the device is gone, and what was opened with it
    }
  }
  OpenedWindow(const OpenedWindow&) = delete;
  OpenedWindow& operator=(const OpenedWindow&) = delete;

  void* of(int rank) const override { return of_rank_[static_cast<std::size_t>(rank)]; }

 private:
  std::shared_ptr<void> memory_;
  int device_;
  std::vector<OpenedBox> opened_;
  std::vector<void*> of_rank_;
};

}  // namespace

Offer offer_of(void* memory, int device) {
  const DeviceScope scope(device);
  Offer mine{false, device, memory, {}};
  mine.open = memory != nullptr && cudaIpcGetMemHandle(&mine.handle, memory) == cudaSuccess;
  if (!mine.open) static_cast<void>(cudaGetLastError());
  return mine;
}

bool share_a_process(const Identity& a, const Identity& b) {
  return a.process == b.process && a.processes[0] != 0 && std::strcmp(a.processes, b.processes) == 0;
}

bool all_apart(const std::vector<Identity>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const Identity& one) {
    return std::count_if(ranks.begin(), ranks.end(),
                         [&](const Identity& other) { return share_a_process(other, one); }) == 1;
  });
}

bool all_on_one_machine(const std::vector<Identity>& ranks) {
  const Identity& first = ranks.front();
  return first.kernel[0] != 0 && std::all_of(ranks.begin(), ranks.end(), [&](const Identity& other) {
           return std::strcmp(other.kernel, first.kernel) == 0;
         });
}

void reach_device(int other, int device) {
  if (other == device) return;
  const cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
    return;
  }
  check(code, "reaching another device's memory");
}

std::shared_ptr<Window> window_on(std::shared_ptr<void> memory, int device, int rank,
                                  const std::vector<Offer>& offers) {
  return std::make_shared<OpenedWindow>(std::move(memory), device, rank, offers);
}

}  // namespace samebits::transport::nccl
