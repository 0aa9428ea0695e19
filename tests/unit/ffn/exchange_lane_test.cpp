// Exchanges in a lane: in order, waited for, and what a failure leaves undone.
#include "ffn/rank/exchange_lane.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/played_device.hpp"

namespace samebits::ffn {
namespace {

struct LaneCase {
  const char* name;
  std::shared_ptr<engine::Engine> (*engine)();
  bool beside;
};

std::shared_ptr<engine::Engine> cpu() { return make_cpu_engine({1, Isa::automatic}); }
std::shared_ptr<engine::Engine> device() { return test::played_device(1, 3, 200); }

class Lane : public testing::TestWithParam<LaneCase> {
 protected:
  std::shared_ptr<engine::Engine> engine_ = GetParam().engine();
  engine::OwnedQueue owned_ = engine_->make_queue();
  Queue compute_{owned_.get()};
  std::unique_ptr<ExchangeLane> lane_ = make_exchange_lane(*engine_, GetParam().beside);

  // Moves one element on the queue it is given, late on the host.
  struct Move {
    engine::Engine* engine;
    int* to;
    const int* from;
    void operator()(Queue queue) const {
      if (queue.handle == nullptr) std::this_thread::sleep_for(std::chrono::microseconds(50));
      const Device on = engine->device();
      engine->copy({to, DType::f32, 1, 1, 1, 1, on}, {from, DType::f32, 1, 1, 1, 1, on}, queue);
    }
  };
  void finish_queue() {
    if (compute_.handle != nullptr) engine_->synchronize(compute_);
  }
};
INSTANTIATE_TEST_SUITE_P(, Lane,
                         testing::Values(LaneCase{"in_turn", cpu, false}, LaneCase{"thread", cpu, true},
                                         LaneCase{"queue", device, true},
                                         LaneCase{"queue_in_turn", device, false}),
                         [](const auto& lane) { return std::string(lane.param.name); });

// Each exchange hands on what the one before brought: many more than a lane has room for.
TEST_P(Lane, RunsInOrder) {
  constexpr int kCount = 200;
  std::vector<int> cells(kCount + 1);
  cells[0] = 7;
  ExchangeLane::Ticket last;
  for (int i = 0; i < kCount; ++i) {
    last = lane_->put(
        Move{engine_.get(), &cells[static_cast<std::size_t>(i) + 1], &cells[static_cast<std::size_t>(i)]},
        compute_);
  }
  lane_->wait(last, compute_);
  lane_->join(compute_);
  finish_queue();
  EXPECT_EQ(cells.back(), 7);
  EXPECT_GT(lane_->exposed_seconds(), 0);
}

// What `compute` holds comes before the exchange, what follows the wait after it.
TEST_P(Lane, StandsBetweenWhatIsComputed) {
  const Device on = engine_->device();
  for (int round = 0; round < 50; ++round) {
    int cells[4] = {round + 1, 0, 0, 0};
    const auto compute = [&](int to, int from) {
      engine_->copy({&cells[to], DType::f32, 1, 1, 1, 1, on}, {&cells[from], DType::f32, 1, 1, 1, 1, on},
                    compute_);
    };
    compute(1, 0);
    lane_->wait(lane_->put(Move{engine_.get(), &cells[2], &cells[1]}, compute_), compute_);
    compute(3, 2);
    lane_->join(compute_);
    finish_queue();
    ASSERT_EQ(cells[3], round + 1);
  }
}

TEST(ThreadLane, AFailureEndsWhatIsBehindIt) {
  const auto engine = cpu();
  const auto lane = make_exchange_lane(*engine, true);
  std::atomic<int> done = 0;
  const auto count = [&done](Queue) { ++done; };
  for (int round = 0; round < 20; ++round) {
    done = 0;
    const auto first = lane->put(count, {});
    lane->wait(first, {});
    const auto second = lane->put([](Queue) { throw std::runtime_error("lost"); }, {});
    const auto third = lane->put(count, {});
    EXPECT_THROW(lane->wait(third, {}), std::runtime_error);
    EXPECT_THROW(lane->wait(second, {}), std::runtime_error);
    EXPECT_THROW(lane->join({}), std::runtime_error);
    lane->abandon({});
    EXPECT_EQ(done, 1);
    lane->join({});  // as good as new
  }
}

TEST(ThreadLane, WhatIsAbandonedHasEndedOrNeverBegins) {
  const auto engine = cpu();
  const auto lane = make_exchange_lane(*engine, true);
  std::atomic<bool> begun = false, abandons = false, ended = false, other = false;
  lane->put(
      [&](Queue) {
        begun = true;
        while (!abandons) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ended = true;
      },
      {});
  lane->put([&](Queue) { other = true; }, {});
  while (!begun) std::this_thread::yield();
  abandons = true;
  lane->abandon({});
  EXPECT_TRUE(ended);
  lane->run([](Queue) {}, {});
  EXPECT_FALSE(other);
}

}  // namespace
}  // namespace samebits::ffn
