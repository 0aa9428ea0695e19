#include "support/delays.hpp"

#include <chrono>
#include <random>
#include <thread>

#include "transport/forwarding.hpp"

namespace samebits::test {
namespace {

class DelayedTransport final : public transport::ForwardingTransport {
 public:
  DelayedTransport(std::shared_ptr<Transport> inner, std::uint64_t seed, int most)
      : ForwardingTransport(std::move(inner)), random_(seed), most_(most) {}

  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    dawdle();
    inner().all_gather(send, receive, bytes, space, queue);
    dawdle();
  }
  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    dawdle();
    inner().all_to_all(send, send_bytes, receive, receive_bytes, space, queue);
    dawdle();
  }
  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<DelayedTransport>(inner().subgroup(ranks), random_(), most_);
  }

 private:
  // Half of the time not at all.
  void dawdle() {
    const std::uint64_t word = random_();
    if ((word & 1) != 0)
      std::this_thread::sleep_for(
          std::chrono::microseconds((word >> 1) % static_cast<std::uint64_t>(most_ + 1)));
  }

  std::mt19937_64 random_;
  int most_;
};

}  // namespace

std::shared_ptr<Transport> delayed_transport(std::shared_ptr<Transport> transport, std::uint64_t seed,
                                             int most_microseconds) {
  return std::make_shared<DelayedTransport>(std::move(transport), seed, most_microseconds);
}

}  // namespace samebits::test
