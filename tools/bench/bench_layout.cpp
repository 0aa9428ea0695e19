#include "bench/bench_layout.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "bench/layout_ranks.hpp"
#include "block/layout_refused.hpp"
#include "block/on_ranks.hpp"
#include "block/process_group.hpp"
#include "block/rank_tokens.hpp"
#include "block/run_ranks.hpp"
#include "samebits/plan.hpp"
#include "samebits/transport.hpp"

namespace samebits::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Worker threads of either side spin a while after their last call; the other side begins when they have gone
// to sleep.
constexpr auto kPause = std::chrono::milliseconds(60);

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

// A rank that fails leaves the barrier, so that the others are not left waiting at it.
class BarrierSeat {
 public:
  explicit BarrierSeat(std::barrier<>& barrier) : barrier_(barrier) {}
  ~BarrierSeat() { barrier_.arrive_and_drop(); }
  BarrierSeat(const BarrierSeat&) = delete;
  BarrierSeat& operator=(const BarrierSeat&) = delete;
  void wait() { barrier_.arrive_and_wait(); }

 private:
  std::barrier<>& barrier_;
};

// One rank's plan and tensors, ready to be called again and again.
class RankBench {
 public:
  RankBench(const Compute& compute, const BlockCase& block, const BenchRun& run, const TokenShards& shards,
            int rank, std::shared_ptr<Transport> transport)
      : both_(run.direction == Direction::both),
        tokens_(tokens_of_rank(shards, run.layout, rank)),
        plan_(options(compute, block, run, std::move(transport))),
        x_(local_rows(block.x, tokens_)),
        y_(x_.view().rows, block.shape.hidden) {
    const Weights weights = plan_.slice(block.gate, block.up, block.down);
    forward_.x = std::as_const(x_).view();
    forward_.y = y_.view();
    forward_.weights = weights;
    forward_.shards = &shards;
    forward_.tokens = block.tokens;
    if (!both_) return;
    dy_ = local_rows(block.dy, tokens_);
    dx_ = HostTensor(x_.view().rows, block.shape.hidden);
    const std::int64_t rows = plan_.shard().intermediate.length();
    d_gate_ = HostTensor(rows, block.shape.hidden, block.gradients);
    d_up_ = HostTensor(rows, block.shape.hidden, block.gradients);
    d_down_ = HostTensor(block.shape.hidden, rows, block.gradients);
    backward_.x = forward_.x;
    backward_.dy = std::as_const(dy_).view();
    backward_.weights = weights;
    backward_.dx = dx_.view();
    backward_.d_gate = d_gate_.view();
    backward_.d_up = d_up_.view();
    backward_.d_down = d_down_.view();
    backward_.shards = &shards;
    backward_.tokens = block.tokens;
  }

  // Says how long it waited for exchanges, in microseconds.
  double call() {
    const double before = plan_.exposed_seconds();
    plan_.forward(forward_);
    if (both_) plan_.backward(backward_);
    return (plan_.exposed_seconds() - before) * 1e6;
  }

 private:
  static PlanOptions options(const Compute& compute, const BlockCase& block, const BenchRun& run,
                             std::shared_ptr<Transport> transport) {
    PlanOptions options =
        compute.plan_options(block.shape, block.tokens, run.layout, run.direction == Direction::both);
    options.engine = compute.make_engine(compute.threads_of_rank(run.layout.ranks()));
    options.transport = std::move(transport);
    return options;
  }

  bool both_;
  std::vector<Interval> tokens_;
  Plan plan_;
  HostTensor x_, y_, dy_, dx_, d_gate_, d_up_, d_down_;
  ForwardArgs forward_;
  BackwardArgs backward_;
};

// Of this process's runs, in microseconds: how long each took, and how long it stood still for exchanges.
struct ProcessTimes {
  std::vector<double> runs, exposed;
};
ProcessTimes time_process(const Compute& compute, const BlockCase& block, const BenchRun& run) {
  const World& world = *compute.world;
  const TokenShards shards = compute.shards(block.tokens, run.layout.cp);
  const auto group = process_group(*world.transport(), run.layout.ranks());
  RankBench bench(compute, block, run, shards, world.rank(), group);
  ProcessTimes times;
  for (int repeat = -1; repeat < run.repeats; ++repeat) {  // -1 warms up
    exchange_nothing(*group, MemorySpace::host);
    const auto begun = Clock::now();
    const double exposed = bench.call();
    if (repeat < 0) continue;
    times.runs.push_back(microseconds(Clock::now() - begun));
    times.exposed.push_back(exposed);
  }
  return times;
}

BenchSamples bench_processes(const Compute& compute, const BlockCase& block, const BenchRun& run) {
  const World& world = *compute.world;
  ProcessTimes mine;
  on_ranks_of(run.layout, world, [&] { allowed([&] { mine = time_process(compute, block, run); }); });
  BenchSamples samples;
  samples.ours_us = slowest_of_world(world, mine.runs);
  samples.exposed_us = slowest_of_world(world, mine.exposed);
  return samples;
}

}  // namespace

BenchSamples bench_layout(const Compute& compute, const BlockCase& block, const BenchRun& run,
                          const std::function<void()>& baseline) {
  if (compute.has_processes() && run.layout.ranks() > 1) return bench_processes(compute, block, run);
  const TokenShards shards = compute.shards(block.tokens, run.layout.cp);
  std::barrier barrier(run.layout.ranks());
  BenchSamples samples;
  std::vector<double> exposed(static_cast<std::size_t>(run.layout.ranks()));
  const auto play = [&](int rank, std::shared_ptr<Transport> transport) {
    BarrierSeat seat(barrier);
    RankBench bench(compute, block, run, shards, rank, std::move(transport));
    for (int repeat = -1; repeat < run.repeats; ++repeat) {  // -1 warms up
      seat.wait();
      const auto begun = Clock::now();
      exposed[static_cast<std::size_t>(rank)] = bench.call();
      seat.wait();
      const auto ended = Clock::now();
      if (rank != 0) continue;
      if (repeat >= 0) {
        samples.ours_us.push_back(microseconds(ended - begun));
        if (exposed.size() > 1)
          samples.exposed_us.push_back(*std::max_element(exposed.begin(), exposed.end()));
      }
      if (!baseline) continue;
      std::this_thread::sleep_for(kPause);
      const auto baseline_begun = Clock::now();
      baseline();
      if (repeat >= 0) samples.baseline_us.push_back(microseconds(Clock::now() - baseline_begun));
      std::this_thread::sleep_for(kPause);
    }
  };
  run_ranks(run.layout, play);
  return samples;
}

}  // namespace samebits::tools
