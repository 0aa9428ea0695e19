#include "support/callback_world.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
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

TransportCallbacks callbacks_of(int rank, const std::shared_ptr<Mailboxes>& boxes) {
  TransportCallbacks callbacks;
  callbacks.all_gather = [rank, boxes](std::span<const int> group, const void* send, void* receive,
                                       std::span<const std::size_t> bytes, MemorySpace, Queue) {
    const auto mine = static_cast<std::size_t>(std::find(group.begin(), group.end(), rank) - group.begin());
    for (const int to : group) boxes->send(rank, to, send, bytes[mine]);
    auto* at = static_cast<unsigned char*>(receive);
    for (std::size_t r = 0; r < group.size(); ++r) {
      boxes->receive(group[r], rank, at, bytes[r]);
      at += bytes[r];
    }
  };
  callbacks.all_to_all = [rank, boxes](std::span<const int> group, const void* send,
                                       std::span<const std::size_t> send_bytes, void* receive,
                                       std::span<const std::size_t> receive_bytes, MemorySpace, Queue) {
    const auto* from = static_cast<const unsigned char*>(send);
    for (std::size_t r = 0; r < group.size(); ++r) {
      boxes->send(rank, group[r], from, send_bytes[r]);
      from += send_bytes[r];
    }
    auto* at = static_cast<unsigned char*>(receive);
    for (std::size_t r = 0; r < group.size(); ++r) {
      boxes->receive(group[r], rank, at, receive_bytes[r]);
      at += receive_bytes[r];
    }
  };
  callbacks.abort = [boxes](const std::string&) { boxes->close(); };
  return callbacks;
}

}  // namespace

void run_callback_world(int ranks, const std::function<void(int, std::shared_ptr<Transport>)>& body) {
  const auto boxes = std::make_shared<Mailboxes>(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank, callback_transport(rank, ranks, callbacks_of(rank, boxes)));
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
