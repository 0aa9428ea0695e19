#include "support/callback_world.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace samebits::test {
namespace {

// Messages from `from` to `to`, in order. Closing wakes whoever waits.
class Mailboxes {
 public:
  explicit Mailboxes(int ranks) : ranks_(ranks), boxes_(static_cast<std::size_t>(ranks * ranks)) {}

  void send(int from, int to, const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto* const begin = static_cast<const unsigned char*>(data);
    box(from, to).emplace_back(begin, begin + bytes);
    arrived_.notify_all();
  }
  void receive(int from, int to, void* data, std::size_t bytes) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !box(from, to).empty() || closed_; });
    if (box(from, to).empty()) throw std::runtime_error("the mailboxes were closed");
    const std::vector<unsigned char> message = std::move(box(from, to).front());
    box(from, to).pop_front();
    if (message.size() != bytes) throw std::runtime_error("a message of another size");
    if (bytes > 0) std::memcpy(data, message.data(), bytes);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    arrived_.notify_all();
  }

 private:
  std::deque<std::vector<unsigned char>>& box(int from, int to) {
    return boxes_[static_cast<std::size_t>(from * ranks_ + to)];
  }
  int ranks_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  bool closed_ = false;
  std::vector<std::deque<std::vector<unsigned char>>> boxes_;
};

std::size_t total(std::span<const std::size_t> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
}

// Host memory on one side of a collective: the caller's own, or a copy of what lies on the engine's device.
class Staged {
 public:
  Staged(engine::Engine& engine, const void* data, std::size_t bytes, MemorySpace space, Queue queue)
      : engine_(engine), data_(data), bytes_(bytes), queue_(queue), copies_(space != MemorySpace::host) {
    if (copies_) copy_.resize(bytes);
  }
  const unsigned char* read() {
    if (!copies_) return static_cast<const unsigned char*>(data_);
    if (bytes_ > 0)
      engine_.copy(row(copy_.data(), {}), row(const_cast<void*>(data_), engine_.device()), queue_);
    return copy_.data();
  }
  unsigned char* target() {
    return copies_ ? copy_.data() : static_cast<unsigned char*>(const_cast<void*>(data_));
  }
  void deliver() {
    if (copies_ && bytes_ > 0)
      engine_.copy(row(const_cast<void*>(data_), engine_.device()), row(copy_.data(), {}), queue_);
  }

 private:
  View row(void* data, Device device) const {
    const auto elements = static_cast<std::int64_t>(bytes_ / size_of(DType::bf16));
    return {data, DType::bf16, 1, elements, elements, 1, device};
  }
  engine::Engine& engine_;
  const void* data_;
  std::size_t bytes_;
  Queue queue_;
  bool copies_;
  std::vector<unsigned char> copy_;
};

TransportCallbacks callbacks_of(int rank, const std::shared_ptr<Mailboxes>& boxes, engine::Engine& engine) {
  TransportCallbacks callbacks;
  callbacks.spaces = {engine.device().space};
  callbacks.all_gather = [rank, boxes, &engine](std::span<const int> group, const void* send, void* receive,
                                                std::span<const std::size_t> bytes, MemorySpace space,
                                                Queue queue) {
    const auto mine = static_cast<std::size_t>(std::find(group.begin(), group.end(), rank) - group.begin());
    Staged sent(engine, send, bytes[mine], space, queue),
        received(engine, receive, total(bytes), space, queue);
    const unsigned char* const from = sent.read();
    for (const int to : group) boxes->send(rank, to, from, bytes[mine]);
    unsigned char* at = received.target();
    for (std::size_t r = 0; r < group.size(); ++r) {
      boxes->receive(group[r], rank, at, bytes[r]);
      at += bytes[r];
    }
    received.deliver();
  };
  callbacks.all_to_all = [rank, boxes, &engine](std::span<const int> group, const void* send,
                                                std::span<const std::size_t> send_bytes, void* receive,
                                                std::span<const std::size_t> receive_bytes, MemorySpace space,
                                                Queue queue) {
    Staged sent(engine, send, total(send_bytes), space, queue),
        received(engine, receive, total(receive_bytes), space, queue);
    const unsigned char* from = sent.read();
    for (std::size_t r = 0; r < group.size(); ++r) {
      boxes->send(rank, group[r], from, send_bytes[r]);
      from += send_bytes[r];
    }
    unsigned char* at = received.target();
    for (std::size_t r = 0; r < group.size(); ++r) {
      boxes->receive(group[r], rank, at, receive_bytes[r]);
      at += receive_bytes[r];
    }
    received.deliver();
  };
  callbacks.abort = [boxes](const std::string&) { boxes->close(); };
  return callbacks;
}

}  // namespace

void run_callback_world(int ranks, const std::function<void(int, std::shared_ptr<Transport>)>& body) {
  run_callback_world_on(*make_cpu_engine({1, Isa::automatic}), ranks, false, body);
}

void run_callback_world_on(engine::Engine& engine, int ranks, bool concurrent,
                           const std::function<void(int, std::shared_ptr<Transport>)>& body) {
  const auto boxes = std::make_shared<Mailboxes>(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        TransportCallbacks callbacks = callbacks_of(rank, boxes, engine);
        callbacks.concurrent = concurrent;
        body(rank, callback_transport(rank, ranks, std::move(callbacks)));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        boxes->close();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace samebits::test
