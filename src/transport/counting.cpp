// A transport that counts.
#include "samebits/transport.hpp"
#include "transport/forwarding.hpp"
#include "transport/group.hpp"

namespace samebits {
namespace {

class CountingTransport final : public transport::ForwardingTransport {
 public:
  CountingTransport(std::shared_ptr<Transport> inner, std::shared_ptr<Moved> moved)
      : ForwardingTransport(std::move(inner)), moved_(std::move(moved)) {}

  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    inner().all_gather(send, receive, bytes, space, queue);
    const std::size_t mine = bytes[static_cast<std::size_t>(rank())];
    moved_->sent += mine * (bytes.size() - 1);
    moved_->received += transport::total(bytes) - mine;
    ++moved_->collectives;
  }

  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    inner().all_to_all(send, send_bytes, receive, receive_bytes, space, queue);
    const auto me = static_cast<std::size_t>(rank());
    moved_->sent += transport::total(send_bytes) - send_bytes[me];
    moved_->received += transport::total(receive_bytes) - receive_bytes[me];
    ++moved_->collectives;
  }

  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<CountingTransport>(inner().subgroup(ranks), moved_);
  }

 private:
  std::shared_ptr<Moved> moved_;
};

}  // namespace

std::shared_ptr<Transport> counting_transport(std::shared_ptr<Transport> transport,
                                              std::shared_ptr<Moved> moved) {
  return std::make_shared<CountingTransport>(std::move(transport), std::move(moved));
}

}  // namespace samebits
