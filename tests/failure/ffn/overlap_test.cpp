// What fails beside the computing, or while exchanges run beside it, is an error on every rank and no hang.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "samebits/error.hpp"
#include "support/callback_world.hpp"
#include "support/failing.hpp"
#include "support/small_plan.hpp"

namespace samebits::test {
namespace {

constexpr Layout kLayout{2, 2, false};

// A forward and a backward of one rank, when all ranks have their plans; exchanges that it made, or -1 where
// it failed with `code`.
int play(std::barrier<>& built, std::shared_ptr<Transport> transport, int failing_exchange, int failing_stage,
         ErrorCode code) {
  const auto countdown = std::make_shared<std::atomic<int>>(0);
  PlanOptions options = SmallPlan::make_options(32, "bf16-tree-v1,T=block:8", {24, 48});
  options.layout = kLayout;
  options.chunks = {3, 4, 1};
  options.engine = std::make_shared<FailingEngine>(failing_stage);
  options.transport = std::make_shared<FailingTransport>(std::move(transport), countdown);
  Plan plan(options);
  built.arrive_and_wait();
  *countdown = failing_exchange;
  SmallPlan data(32);
  const std::int64_t held = plan.shard().intermediate.length();
  ForwardArgs forward = data.forward(16);
  forward.tokens = 32;
  forward.weights = plan.slice(data.weight(data.in.gate, false), data.weight(data.in.up, false),
                               data.weight(data.in.down, true));
  BackwardArgs backward = data.backward(16);
  backward.tokens = 32;
  backward.weights = forward.weights;
  backward.d_gate = backward.d_gate.slice_rows(0, held);
  backward.d_up = backward.d_up.slice_rows(0, held);
  backward.d_down = backward.d_down.slice_cols(0, held);
  try {
    plan.forward(forward);
    plan.backward(backward);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return -1;
  } catch (const std::runtime_error&) {  // of a host program's callbacks
    return -1;
  }
  return failing_exchange - *countdown;
}

using World = void (*)(int, const std::function<void(int, std::shared_ptr<Transport>)>&);

void concurrent_callbacks(int ranks, const std::function<void(int, std::shared_ptr<Transport>)>& body) {
  run_callback_world_on(*make_cpu_engine({1, Isa::automatic}), ranks, true, body);
}

class OverlapFailures : public testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Transports, OverlapFailures, testing::Values(&run_local, &concurrent_callbacks));

TEST_P(OverlapFailures, AnyExchangeOfARank) {
  std::atomic<int> exchanges = 0;
  std::barrier built(kLayout.ranks());
  GetParam()(kLayout.ranks(), [&](int, std::shared_ptr<Transport> transport) {
    exchanges = play(built, std::move(transport), 0, 0, ErrorCode::lost_rank);
  });
  ASSERT_GT(exchanges, 10);
  for (int at = 1; at <= exchanges; ++at) {
    const int failing = at % kLayout.ranks();
    std::atomic<int> failed = 0;
    GetParam()(kLayout.ranks(), [&](int rank, std::shared_ptr<Transport> transport) {
      const bool mine = rank == failing;
      if (play(built, std::move(transport), mine ? at : 0, 0,
               mine ? ErrorCode::environment : ErrorCode::lost_rank) < 0)
        ++failed;
    });
    // The ranks of its group; those that need nothing more of them may come to their end.
    EXPECT_GE(failed, 2) << "exchange " << at;
  }
}

TEST_P(OverlapFailures, AnyStageOfARank) {
  int stages = 0;
  std::barrier built(kLayout.ranks());
  for (int failed = kLayout.ranks(); failed > 0; ++stages) {
    const int failing = stages % kLayout.ranks();
    std::atomic<int> count = 0;
    GetParam()(kLayout.ranks(), [&](int rank, std::shared_ptr<Transport> transport) {
      const bool mine = rank == failing;
      if (play(built, std::move(transport), 0, mine ? stages + 1 : 0,
               mine ? ErrorCode::out_of_memory : ErrorCode::lost_rank) < 0)
        ++count;
    });
    failed = count;
    EXPECT_NE(failed, 1) << "stage " << stages;
  }
  EXPECT_GT(stages, 10);
}

// A plan whose call failed before anything travelled is as good as before.
TEST(Overlap, ACallAfterARefusedOne) {
  run_local(2, [](int, const std::shared_ptr<Transport>& transport) {
    PlanOptions options = SmallPlan::make_options(8, "f32-tree-v1", {24, 48});
    options.layout.tp = 2;
    // Ranks that all refuse need no abort, with which this transport would end.
    options.transport =
        std::make_shared<FailingTransport>(transport, std::make_shared<std::atomic<int>>(0), true);
    Plan plan(options);
    SmallPlan data(8);
    ForwardArgs args = data.forward(8);
    args.weights = plan.slice(data.weight(data.in.gate, false), data.weight(data.in.up, false),
                              data.weight(data.in.down, true));
    ForwardArgs wrong = args;
    wrong.x.cols = 5;
    EXPECT_THROW(plan.forward(wrong), Error);
    plan.forward(args);
  });
}

}  // namespace
}  // namespace samebits::test
