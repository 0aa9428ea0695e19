#include "bench/silence.hpp"

#include <utility>

#include "transport/forwarding.hpp"

namespace samebits::tools {
namespace {

class Silenceable final : public transport::ForwardingTransport {
 public:
  Silenceable(std::shared_ptr<Transport> inner, std::shared_ptr<const bool> silent)
      : ForwardingTransport(std::move(inner)), silent_(std::move(silent)) {}

  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    if (!*silent_) inner().all_gather(send, receive, bytes, space, queue);
  }
  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    if (!*silent_) inner().all_to_all(send, send_bytes, receive, receive_bytes, space, queue);
  }
  // What is written through a window is written in silence too.
  std::shared_ptr<Window> open_window(const std::shared_ptr<void>& memory, MemorySpace space) override {
    return inner().open_window(memory, space);
  }
  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<Silenceable>(inner().subgroup(ranks), silent_);
  }

 private:
  std::shared_ptr<const bool> silent_;
};

}  // namespace

std::shared_ptr<Transport> silenceable(std::shared_ptr<Transport> transport,
                                       std::shared_ptr<const bool> silent) {
  return std::make_shared<Silenceable>(std::move(transport), std::move(silent));
}

}  // namespace samebits::tools
