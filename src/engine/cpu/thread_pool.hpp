// Threads of one engine. Who computes a task changes no bit, so tasks are taken as threads come free.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace samebits::engine::cpu {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // the caller is one of them
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // body(task, worker) for every task in [0, tasks), each under an FpEnvironment. Bodies must not throw.
  // Calls from several threads take turns.
  template <class Body>
  void run(std::int64_t tasks, const Body& body) {
    const std::lock_guard turn(turn_);
    run_erased(tasks, call_of<Body>, &body);
  }

  // The same where no other call has its turn; else false, and nothing was done.
  template <class Body>
  bool try_run(std::int64_t tasks, const Body& body) {
    const std::unique_lock turn(turn_, std::try_to_lock);
    if (turn) run_erased(tasks, call_of<Body>, &body);
    return turn.owns_lock();
  }

 private:
  using Call = void (*)(const void*, std::int64_t, int);
  template <class Body>
  static void call_of(const void* context, std::int64_t task, int worker) {
    (*static_cast<const Body*>(context))(task, worker);
  }
  void run_erased(std::int64_t tasks, Call call, const void* context);
  void stop();
  void work(int worker);
  void take_tasks(int worker);

  std::vector<std::thread> workers_;
  std::mutex turn_;   // one run at a time
  std::mutex mutex_;  // guards what follows
  std::condition_variable start_, done_;
  std::uint64_t generation_ = 0;
  int busy_ = 0;
  bool stop_ = false;
  Call call_ = nullptr;
  const void* context_ = nullptr;
  std::int64_t tasks_ = 0;
  std::atomic<std::int64_t> next_{0};
};

}  // namespace samebits::engine::cpu
