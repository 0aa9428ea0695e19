// A host program's own way of moving bytes as a transport.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "samebits/error.hpp"
#include "samebits/transport.hpp"
#include "transport/group.hpp"

namespace samebits {
namespace {

class CallbackTransport final : public Transport {
 public:
  CallbackTransport(std::shared_ptr<const TransportCallbacks> callbacks, transport::Members members)
      : callbacks_(std::move(callbacks)), members_(std::move(members)) {}

  std::string name() const override { return "callbacks"; }
  int rank() const override { return members_.rank; }
  int size() const override { return static_cast<int>(members_.of_world.size()); }
  bool reaches(MemorySpace space) const override {
    return std::find(callbacks_->spaces.begin(), callbacks_->spaces.end(), space) != callbacks_->spaces.end();
  }
  bool concurrent(MemorySpace space) const override { return callbacks_->concurrent && reaches(space); }

  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    transport::check_counts(bytes, size());
    callbacks_->all_gather(members_.of_world, send, receive, bytes, space, queue);
  }

  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    transport::check_counts(send_bytes, size());
    transport::check_counts(receive_bytes, size());
    callbacks_->all_to_all(members_.of_world, send, send_bytes, receive, receive_bytes, space, queue);
  }

  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<CallbackTransport>(callbacks_, transport::subgroup_of(members_, ranks));
  }

  void abort(const std::string& reason) noexcept override {
    try {
      if (callbacks_->abort) callbacks_->abort(reason);
    } catch (...) {  // an abort that fails leaves nothing more to do
    }
  }

 private:
  std::shared_ptr<const TransportCallbacks> callbacks_;
  transport::Members members_;
};

}  // namespace

std::shared_ptr<Transport> callback_transport(int rank, int size, TransportCallbacks callbacks) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("rank {} of {} ranks: ranks count from 0", rank, size));
  }
  if (!callbacks.all_gather || !callbacks.all_to_all) {
    throw Error(ErrorCode::invalid_argument, "a callback transport needs both all_gather and all_to_all");
  }
  transport::Members members{std::vector<int>(static_cast<std::size_t>(size)), rank};
  std::iota(members.of_world.begin(), members.of_world.end(), 0);
  return std::make_shared<CallbackTransport>(std::make_shared<const TransportCallbacks>(std::move(callbacks)),
                                             std::move(members));
}

}  // namespace samebits
