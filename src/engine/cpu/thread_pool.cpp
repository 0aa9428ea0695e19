#include "engine/cpu/thread_pool.hpp"

#include <fmt/format.h>

#include "engine/fp_environment.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::cpu {

ThreadPool::ThreadPool(int threads) {
  try {
    for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
  } catch (const std::exception& error) {
    const std::size_t started = workers_.size() + 1;
    stop();
    throw Error(ErrorCode::environment,
                fmt::format("only {} of {} threads could be started: {}; ask for fewer", started, threads,
                            error.what()));
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::take_tasks(int worker) {
  const FpEnvironment environment;
  for (std::int64_t task = next_++; task < tasks_; task = next_++) call_(context_, task, worker);
}

void ThreadPool::run_erased(std::int64_t tasks, Call call, const void* context) {
  if (tasks <= 0) return;
  {
    const std::lock_guard lock(mutex_);
    call_ = call;
    context_ = context;
    tasks_ = tasks;
    next_ = 0;
    if (tasks > 1) {
      busy_ = static_cast<int>(workers_.size());
      ++generation_;
    }
  }
  if (tasks > 1) start_.notify_all();
  take_tasks(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void ThreadPool::work(int worker) {
  std::uint64_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
    }
    take_tasks(worker);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace samebits::engine::cpu
