// Memory of other ranks' devices: offered and opened, all ranks or none. Of a build with CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/check.hpp"
#include "samebits/error.hpp"
#include "samebits/transport.hpp"
#include "transport/gpu_runtime.hpp"
#include "transport/nccl_mailbox.hpp"
#include "transport/nccl_peers.hpp"

namespace samebits::transport::nccl {

// What a rank tells the others of memory that they may reach.
struct Offer {
  bool open = false;
  int device = 0;
  void* memory = nullptr;
  cudaIpcMemHandle_t handle{};
};

Offer offer_of(void* memory, int device);  // not open where the device has no handle for it

// Memory of another process, as this one sees it.
class OpenedBox {
 public:
  explicit OpenedBox(const cudaIpcMemHandle_t& handle) {
    check(cudaIpcOpenMemHandle(&data_, handle, cudaIpcMemLazyEnablePeerAccess),
          "opening another process's device memory");
  }
  ~OpenedBox() {
    if (data_ != nullptr) static_cast<void>(cudaIpcCloseMemHandle(data_));
  }
  OpenedBox(OpenedBox&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  OpenedBox& operator=(OpenedBox&&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

bool all_on_one_machine(const std::vector<Identity>& ranks);
// No two of them share a process: all ranks find the same.
bool all_apart(const std::vector<Identity>& ranks);
bool share_a_process(const Identity& a, const Identity& b);

// From now on the current device, `device`, reaches the memory of `other`.
void reach_device(int other, int device);

// connect(offers of all ranks), where all of them have something to offer. Whether it went well on all.
template <class Connect>
bool agree(const Mailbox::Gather& gather, const Offer& mine, int ranks, const Connect& connect) {
  std::vector<Offer> offers(static_cast<std::size_t>(ranks));
  gather(&mine, offers.data(), sizeof mine);
  char reached = 0;
  try {
    if (std::all_of(offers.begin(), offers.end(), [](const Offer& offer) { return offer.open; })) {
      connect(offers);
      reached = 1;
    }
  } catch (const Error&) {
    static_cast<void>(cudaGetLastError());
  }
  std::vector<char> all(static_cast<std::size_t>(ranks));
  gather(&reached, all.data(), 1);
  return std::find(all.begin(), all.end(), 0) == all.end();
}

// The others' memory beside this rank's own; offers are of processes.
std::shared_ptr<Window> window_on(std::shared_ptr<void> memory, int device, int rank,
                                  const std::vector<Offer>& offers);

}  // namespace samebits::transport::nccl
