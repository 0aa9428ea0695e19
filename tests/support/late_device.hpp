// Host memory that plays a device's: what is enqueued happens as late as it may, when somebody waits for a
// mark behind it. So a copy that is read before it was waited for, or a buffer that is written again too
// early, brings wrong bytes.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "transport/memory.hpp"

namespace samebits::test {

// The queues of one rank's device. Outlives the links to it.
class LateDevice {
 public:
  void enqueue(Queue queue, std::function<void()> work) { queues_[queue.handle].push_back(std::move(work)); }

  std::size_t end_of(Queue queue) { return done_[queue.handle] + queues_[queue.handle].size(); }

  void run_to(Queue queue, std::size_t end) {
    std::deque<std::function<void()>>& work = queues_[queue.handle];
    for (std::size_t& done = done_[queue.handle]; done < end; ++done) {
      work.front()();
      work.pop_front();
    }
  }

  void synchronize(Queue queue) { run_to(queue, end_of(queue)); }

 private:
  std::map<void*, std::deque<std::function<void()>>> queues_;
  std::map<void*, std::size_t> done_;
};

class LateLink final : public transport::HostLink {
 public:
  LateLink(LateDevice& device, std::size_t marks) : device_(device), marks_(marks) {}

  transport::HostBuffer allocate(std::size_t bytes) override {
    transport::HostBuffer buffer(new unsigned char[bytes], [](unsigned char* p) { delete[] p; });
    std::memset(buffer.get(), 0xDD, bytes);
    return buffer;
  }
  void to_host(void* host, const void* there, std::size_t bytes, Queue queue) override {
    device_.enqueue(queue, [=] { std::memcpy(host, there, bytes); });
  }
  void to_device(void* there, const void* host, std::size_t bytes, Queue queue) override {
    device_.enqueue(queue, [=] { std::memcpy(there, host, bytes); });
  }
  void mark(std::size_t which, const void*, Queue queue) override {
    marks_.at(which) = {queue, device_.end_of(queue)};
  }
  void wait(std::size_t which) override { device_.run_to(marks_.at(which).queue, marks_.at(which).end); }

 private:
  struct Mark {
    Queue queue;
    std::size_t end = 0;
  };
  LateDevice& device_;
  std::vector<Mark> marks_;
};

}  // namespace samebits::test
