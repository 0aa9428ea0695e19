// Transports and engines that fail when they are told to.
#pragma once

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "engine/engine.hpp"
#include "samebits/error.hpp"
#include "transport/forwarding.hpp"

namespace samebits::test {

// Throws in its countdown-th exchange, subgroups' included, unless that is 0. A deaf one tells nobody of an
// abort.
class FailingTransport final : public transport::ForwardingTransport {
 public:
  FailingTransport(std::shared_ptr<Transport> inner, std::shared_ptr<std::atomic<int>> countdown,
                   bool deaf = false)
      : ForwardingTransport(std::move(inner)), countdown_(std::move(countdown)), deaf_(deaf) {}
  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    count();
    inner().all_gather(send, receive, bytes, space, queue);
  }
  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    count();
    inner().all_to_all(send, send_bytes, receive, receive_bytes, space, queue);
  }
  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<FailingTransport>(inner().subgroup(ranks), countdown_, deaf_);
  }
  void abort(const std::string& reason) noexcept override {
    if (!deaf_) inner().abort(reason);
  }

 private:
  void count() {
    if (--*countdown_ == 0) throw Error(ErrorCode::environment, "the cable was pulled");
  }
  std::shared_ptr<std::atomic<int>> countdown_;
  bool deaf_;
};

// Throws in its countdown-th stage.
class FailingBlock final : public engine::Block {
 public:
  FailingBlock(std::unique_ptr<engine::Block> inner, int countdown)
      : inner_(std::move(inner)), countdown_(countdown) {}
  void gate_up(const engine::GateUp& s, Queue q) override { counted().gate_up(s, q); }
  void down(const engine::Down& s, Queue q) override { counted().down(s, q); }
  void d_act(const engine::DAct& s, Queue q) override { counted().d_act(s, q); }
  void d_hidden(const engine::DHidden& s, Queue q) override { counted().d_hidden(s, q); }
  void d_hidden_lane(const engine::DHiddenLane& s, Queue q) override { counted().d_hidden_lane(s, q); }
  void d_weight(const engine::DWeight& s, Queue q) override { counted().d_weight(s, q); }
  void finish(const engine::Finish& s, Queue q) override { counted().finish(s, q); }
  std::size_t workspace_bytes() const override { return inner_->workspace_bytes(); }

 private:
  engine::Block& counted() {
    if (--countdown_ == 0) throw std::bad_alloc();
    return *inner_;
  }
  std::unique_ptr<engine::Block> inner_;
  int countdown_;
};

class FailingEngine final : public engine::Engine {
 public:
  explicit FailingEngine(int countdown) : countdown_(countdown) {}
  std::string name() const override { return "failing"; }
  Device device() const override { return {}; }
  std::unique_ptr<engine::Block> prepare(const engine::Problem& problem) override {
    return std::make_unique<FailingBlock>(cpu_->prepare(problem), countdown_);
  }
  engine::Memory allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  void copy(const View& to, const ConstView& from, Queue queue) override { cpu_->copy(to, from, queue); }

 private:
  std::shared_ptr<engine::Engine> cpu_ = make_cpu_engine({1, Isa::automatic});
  int countdown_;
};

}  // namespace samebits::test
