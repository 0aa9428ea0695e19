#include "ffn/rank/exchange_lane.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "samebits/error.hpp"

namespace samebits::ffn {
namespace {

// More than any call has on their way; putting another waits.
constexpr std::size_t kRoom = 16;

class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - begun_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point begun_ = Clock::now();
};

// On the caller's thread and queue, at once.
class LaneInTurn final : public ExchangeLane {
 public:
  bool beside() const override { return false; }
  void abandon(Queue) noexcept override {}

 private:
  Ticket do_put(const Exchange& exchange, Queue compute) override {
    exchange(compute);
    return {};
  }
  void do_wait(Ticket, Queue) override {}
  void do_join(Queue) override {}
};

// Host memory. What was computed is there when it is put, so the thread has nothing to wait for.
class ThreadLane final : public ExchangeLane {
 public:
  ThreadLane() {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& error) {
      throw Error(ErrorCode::environment, std::string("a plan's thread for exchanges: ") + error.what());
    }
  }
  ~ThreadLane() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  ThreadLane(const ThreadLane&) = delete;
  ThreadLane& operator=(const ThreadLane&) = delete;

  bool beside() const override { return true; }

  void abandon(Queue) noexcept override {
    std::unique_lock lock(mutex_);
    abandoned_ = true;
    changed_.wait(lock, [&] { return done_ == put_; });
    abandoned_ = false;
    failure_ = nullptr;
  }

 private:
  Ticket do_put(const Exchange& exchange, Queue) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return put_ - done_ < kRoom; });
    ring_[put_ % kRoom] = exchange;
    ++put_;
    changed_.notify_all();
    return {put_};
  }
  void do_wait(Ticket ticket, Queue) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= ticket.number; });
    if (failure_) std::rethrow_exception(failure_);
  }
  void do_join(Queue compute) override { do_wait({put_}, compute); }  // only the caller writes put_

  // Behind one that failed nothing is moved: the ranks are out of step.
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || done_ < put_; });
      if (done_ == put_) return;
      if (!failure_ && !abandoned_) {
        const Exchange& exchange = ring_[done_ % kRoom];  // stays until done_ has passed it
        std::exception_ptr failure;
        lock.unlock();
        try {
          exchange({});
        } catch (...) {
          failure = std::current_exception();
        }
        lock.lock();
        failure_ = std::move(failure);
      }
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::array<Exchange, kRoom> ring_;
  std::uint64_t put_ = 0, done_ = 0;
  std::exception_ptr failure_;
  bool abandoned_ = false, ending_ = false;
  std::thread thread_;
};

// Device memory: a queue beside the caller's, forked from it by an event before each exchange and joined
// again before the call ends, so that a capture of the caller's queue takes both.
class QueueLane final : public ExchangeLane {
 public:
  explicit QueueLane(engine::Engine& engine)
      : engine_(engine), queue_(engine.make_queue()), ready_(engine.make_event()) {
    done_.reserve(kRoom);
    while (done_.size() < kRoom) done_.push_back(engine.make_event());
  }

  bool beside() const override { return true; }

  void abandon(Queue compute) noexcept override {
    try {
      do_join(compute);
    } catch (...) {  // a device that takes nothing more runs nothing more
      joined_ = put_;
    }
  }

 private:
  Ticket do_put(const Exchange& exchange, Queue compute) override {
    const Queue queue{queue_.get()};
    engine_.record(compute, ready_.get());
    engine_.wait(queue, ready_.get());
    exchange(queue);
    engine_.record(queue, done_[put_ % kRoom].get());
    return {++put_};
  }
  // An event that has been recorded again since stands for a later exchange, behind this one.
  void do_wait(Ticket ticket, Queue compute) override {
    if (ticket.number > joined_) engine_.wait(compute, done_[(ticket.number - 1) % kRoom].get());
  }
  void do_join(Queue compute) override {
    do_wait({put_}, compute);
    joined_ = put_;
  }

  engine::Engine& engine_;
  engine::OwnedQueue queue_;
  engine::OwnedEvent ready_;
  std::vector<engine::OwnedEvent> done_;
  std::uint64_t put_ = 0, joined_ = 0;
};

}  // namespace

ExchangeLane::Ticket ExchangeLane::put(const Exchange& exchange, Queue compute) {
  const Stopwatch watch(exposed_seconds_);
  return do_put(exchange, compute);
}

void ExchangeLane::wait(Ticket ticket, Queue compute) {
  if (ticket.number == 0) return;
  const Stopwatch watch(exposed_seconds_);
  do_wait(ticket, compute);
}

void ExchangeLane::join(Queue compute) {
  const Stopwatch watch(exposed_seconds_);
  do_join(compute);
}

std::unique_ptr<ExchangeLane> make_exchange_lane(engine::Engine& engine, bool beside) {
  if (!beside) return std::make_unique<LaneInTurn>();
  if (engine.device().space == MemorySpace::host) return std::make_unique<ThreadLane>();
  return std::make_unique<QueueLane>(engine);
}

}  // namespace samebits::ffn
