// A transport that does something beside what another one does: what it leaves alone is the other's.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "samebits/transport.hpp"

namespace samebits::transport {

class ForwardingTransport : public Transport {
 public:
  explicit ForwardingTransport(std::shared_ptr<Transport> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool reaches(MemorySpace space) const override { return inner_->reaches(space); }
  bool concurrent(MemorySpace space) const override { return inner_->concurrent(space); }

  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    inner_->all_gather(send, receive, bytes, space, queue);
  }
  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    inner_->all_to_all(send, send_bytes, receive, receive_bytes, space, queue);
  }
  // open_window is not forwarded: what is written through a window passes nobody who forwards.
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 protected:
  Transport& inner() const { return *inner_; }

 private:
  std::shared_ptr<Transport> inner_;
};

}  // namespace samebits::transport
