#include "support/played_device.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace samebits::test {
namespace {

class PlayedQueue {
 public:
  PlayedQueue(std::uint64_t seed, int most) : random_(seed), most_(most), thread_([this] { work(); }) {}
  ~PlayedQueue() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  PlayedQueue(const PlayedQueue&) = delete;
  PlayedQueue& operator=(const PlayedQueue&) = delete;

  void add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    changed_.notify_all();
  }

  // Throws what its work threw.
  void synchronize() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const std::function<void()> next = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      lock.unlock();
      std::exception_ptr failure;
      try {
        dawdle();
        next();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      busy_ = false;
      if (failure && !failure_) failure_ = std::move(failure);
      changed_.notify_all();
    }
  }
  // Half of the time not at all.
  void dawdle() {
    const std::uint64_t word = random_();
    if ((word & 1) != 0 && most_ > 0)
      std::this_thread::sleep_for(
          std::chrono::microseconds((word >> 1) % static_cast<std::uint64_t>(most_ + 1)));
  }

  std::mt19937_64 random_;
  int most_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool busy_ = false, ending_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

PlayedQueue& played(Queue queue) { return *static_cast<PlayedQueue*>(queue.handle); }

// A moment of a queue: passed when its work has come there.
class Moment {
 public:
  void pass() {
    const std::lock_guard lock(mutex_);
    passed_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return passed_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool passed_ = false;
};

// An event that was never recorded is passed.
struct PlayedEvent {
  std::shared_ptr<Moment> newest;
};

// Every stage runs later, so what it is told of is kept.
class PlayedBlock final : public engine::Block {
 public:
  explicit PlayedBlock(std::unique_ptr<engine::Block> inner) : inner_(std::move(inner)) {}

  void gate_up(const engine::GateUp& stage, Queue queue) override {
    played(queue).add([this, stage] { inner_->gate_up(stage, {}); });
  }
  void down(const engine::Down& stage, Queue queue) override {
    played(queue).add([this, stage] { inner_->down(stage, {}); });
  }
  void d_act(const engine::DAct& stage, Queue queue) override {
    played(queue).add([this, stage] { inner_->d_act(stage, {}); });
  }
  void d_hidden(const engine::DHidden& stage, Queue queue) override {
    played(queue).add([this, stage] { inner_->d_hidden(stage, {}); });
  }
  void d_hidden_lane(const engine::DHiddenLane& stage, Queue queue) override {
    played(queue).add([this, stage] { inner_->d_hidden_lane(stage, {}); });
  }
  void d_weight(const engine::DWeight& stage, Queue queue) override {
    played(queue).add([this, stage, held = std::vector<Interval>(stage.held.begin(), stage.held.end())] {
      engine::DWeight later = stage;
      later.held = held;
      inner_->d_weight(later, {});
    });
  }
  void finish(const engine::Finish& stage, Queue queue) override {
    using Nodes = std::vector<engine::FinishNode>;
    played(queue).add([this, out = stage.out, nodes = Nodes(stage.nodes.begin(), stage.nodes.end()),
                       up = Nodes(stage.up.begin(), stage.up.end())] {
      inner_->finish({nodes, up, out}, {});
    });
  }
  std::size_t workspace_bytes() const override { return inner_->workspace_bytes(); }

 private:
  std::unique_ptr<engine::Block> inner_;
};

class PlayedDevice final : public engine::Engine {
 public:
  PlayedDevice(int threads, std::uint64_t seed, int most)
      : cpu_(make_cpu_engine({threads, Isa::automatic})), random_(seed), most_(most) {}

  std::string name() const override { return "played device"; }
  Device device() const override { return {MemorySpace::hip, 0}; }
  std::unique_ptr<engine::Block> prepare(const engine::Problem& problem) override {
    return std::make_unique<PlayedBlock>(cpu_->prepare(problem));
  }
  engine::Memory allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  void copy(const View& to, const ConstView& from, Queue queue) override {
    if (queue.handle == nullptr) return cpu_->copy(to, from, {});
    played(queue).add([this, to, from] { cpu_->copy(to, from, {}); });
    if (to.device.space == MemorySpace::host || from.device.space == MemorySpace::host) synchronize(queue);
  }
  engine::OwnedQueue make_queue() override {
    return {new PlayedQueue(random_(), most_), [](void* queue) { delete static_cast<PlayedQueue*>(queue); }};
  }
  void synchronize(Queue queue) override { played(queue).synchronize(); }
  engine::OwnedEvent make_event() override {
    return {new PlayedEvent, [](void* event) { delete static_cast<PlayedEvent*>(event); }};
  }
  void record(Queue queue, void* event) override {
    auto moment = std::make_shared<Moment>();
    static_cast<PlayedEvent*>(event)->newest = moment;
    played(queue).add([moment] { moment->pass(); });
  }
  void wait(Queue queue, void* event) override {
    if (const auto moment = static_cast<PlayedEvent*>(event)->newest)
      played(queue).add([moment] { moment->wait(); });
  }

 private:
  std::shared_ptr<engine::Engine> cpu_;
  std::mt19937_64 random_;
  int most_;
};

class EnqueuingTransport final : public Transport {
 public:
  explicit EnqueuingTransport(std::shared_ptr<Transport> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool reaches(MemorySpace space) const override { return space == MemorySpace::hip; }
  bool concurrent(MemorySpace space) const override { return reaches(space); }

  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace,
                  Queue queue) override {
    enqueue(queue, [inner = inner_, send, receive, counts = Counts(bytes.begin(), bytes.end())] {
      inner->all_gather(send, receive, counts, MemorySpace::host, {});
    });
  }
  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace, Queue queue) override {
    enqueue(queue, [inner = inner_, send, receive, sent = Counts(send_bytes.begin(), send_bytes.end()),
                    received = Counts(receive_bytes.begin(), receive_bytes.end())] {
      inner->all_to_all(send, sent, receive, received, MemorySpace::host, {});
    });
  }
  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<EnqueuingTransport>(inner_->subgroup(ranks));
  }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 private:
  using Counts = std::vector<std::size_t>;
  static void enqueue(Queue queue, std::function<void()> exchange) {
    if (queue.handle == nullptr) return exchange();
    played(queue).add(std::move(exchange));
  }
  std::shared_ptr<Transport> inner_;
};

}  // namespace

std::shared_ptr<engine::Engine> played_device(int threads, std::uint64_t seed, int most_microseconds) {
  return std::make_shared<PlayedDevice>(threads, seed, most_microseconds);
}

std::shared_ptr<Transport> enqueuing_transport(std::shared_ptr<Transport> transport) {
  return std::make_shared<EnqueuingTransport>(std::move(transport));
}

}  // namespace samebits::test
