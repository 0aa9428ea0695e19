// The exchanges of a plan: one after the other, in the order in which they are put, on every rank alike. They
// run beside what the plan computes where that is allowed, else in turn with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include "engine/engine.hpp"

namespace samebits::ffn {

// What the lane runs on a queue: a callable of a few words, held in place, so that putting one allocates
// nothing.
class Exchange {
 public:
  Exchange() = default;
  template <class Body>
  requires(!std::is_same_v<Body, Exchange>) Exchange(const Body& body)
      : run_(run<Body>) {  // NOLINT: a lambda is an exchange
    static_assert(sizeof(Body) <= kBytes && std::is_trivially_copyable_v<Body>);
    new (body_) Body(body);
  }
  void operator()(Queue queue) const { run_(body_, queue); }

 private:
  static constexpr std::size_t kBytes = 192;
  template <class Body>
  static void run(const std::byte* body, Queue queue) {
    (*std::launder(reinterpret_cast<const Body*>(body)))(queue);
  }

  alignas(std::max_align_t) std::byte body_[kBytes];
  void (*run_)(const std::byte*, Queue) = nullptr;
};

class ExchangeLane {
 public:
  // The number of an exchange; 0 is none, and never waited for.
  struct Ticket {
    std::uint64_t number = 0;
  };

  virtual ~ExchangeLane() = default;
  virtual bool beside() const = 0;

  // Runs `exchange` behind everything that was put before, and that `compute` holds by now. What it reads and
  // writes is left alone until it is waited for.
  Ticket put(const Exchange& exchange, Queue compute);

  // What follows on `compute` finds the exchange, and all before it, done. Throws what an exchange threw.
  void wait(Ticket ticket, Queue compute);
  void run(const Exchange& exchange, Queue compute) { wait(put(exchange, compute), compute); }

  // Ends a call: all exchanges are waited for.
  void join(Queue compute);

  // Ends a call that has failed: exchanges that have not begun never do, and the one that runs is waited for.
  virtual void abandon(Queue compute) noexcept = 0;

  // That put, wait and join took: of host memory, how long computing stood still for exchanges.
  double exposed_seconds() const { return exposed_seconds_; }

 private:
  virtual Ticket do_put(const Exchange& exchange, Queue compute) = 0;
  virtual void do_wait(Ticket ticket, Queue compute) = 0;
  virtual void do_join(Queue compute) = 0;

  double exposed_seconds_ = 0;
};

// `beside`: host memory takes a thread for it, device memory a queue of the engine.
std::unique_ptr<ExchangeLane> make_exchange_lane(engine::Engine& engine, bool beside);

}  // namespace samebits::ffn
