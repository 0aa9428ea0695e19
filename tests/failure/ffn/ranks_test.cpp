// Ranks that were given different things all refuse, naming the rank and the field; a rank that fails ends
// the others.
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "samebits/error.hpp"
#include "samebits/plan.hpp"
#include "support/small_plan.hpp"

namespace samebits::test {
namespace {

// What each of two ranks says when rank 1's options are changed.
template <class Change>
std::multiset<std::string> refusals(const Change& change) {
  std::multiset<std::string> messages;
  std::mutex mutex;
  try {
    run_local(2, [&](int rank, const std::shared_ptr<Transport>& transport) {
      PlanOptions options = SmallPlan::make_options(8, "f32-tree-v1", {16, 64});
      options.layout.tp = 2;
      options.transport = transport;
      if (rank == 1) change(options);
      try {
        const Plan plan(options);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::disagreement) << error.what();
        const std::lock_guard lock(mutex);
        messages.insert(error.what());
        throw;
      }
    });
    ADD_FAILURE() << "nobody refused";
  } catch (const Error&) {
  }
  return messages;
}

void expect_both_say(const std::multiset<std::string>& messages, const std::string& field) {
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(*messages.begin(), *messages.rbegin());
  EXPECT_NE(messages.begin()->find("rank 1 has " + field), std::string::npos) << *messages.begin();
}

TEST(Ranks, DifferentContractsShapesAndLimits) {
  expect_both_say(refusals([](PlanOptions& o) { o.contract = parse_contract("f32-tree-v1,T=block:512"); }),
                  "contract");
  expect_both_say(refusals([](PlanOptions& o) { o.shape.hidden = 32; }), "shape 32x64");
  expect_both_say(refusals([](PlanOptions& o) { o.max_tokens = 9; }), "most tokens");
  expect_both_say(refusals([](PlanOptions& o) { o.layout.sequence_parallel = true; }), "layout tp2+sp");
  expect_both_say(refusals([](PlanOptions& o) { o.down = DownCut::rows; }), "cuts down rows");
  expect_both_say(refusals([](PlanOptions& o) { o.cover_exchange = CoverExchange::slice_owner; }),
                  "reductions");
  expect_both_say(refusals([](PlanOptions& o) { o.overlap = Overlap::off; }), "overlap off");
  expect_both_say(refusals([](PlanOptions& o) { o.chunks.least_rows = 7; }), "overlap auto");
}

TEST(Ranks, ARankThatFailsInACallEndsTheOthers) {
  try {
    run_local(4, [](int rank, const std::shared_ptr<Transport>& transport) {
      PlanOptions options = SmallPlan::make_options(8, "f32-tree-v1", {24, 48});
      options.layout.tp = 4;
      options.transport = transport;
      Plan plan(options);
      SmallPlan data(8);
      ForwardArgs args = data.forward(8);
      args.weights = plan.slice(data.weight(data.in.gate, false), data.weight(data.in.up, false),
                                data.weight(data.in.down, true));
      if (rank == 3) args.x.cols = 5;
      plan.forward(args);
    });
    FAIL() << "nobody failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("x is 8 x 5"), std::string::npos) << error.what();
  }
}

TEST(Ranks, DifferentTokenCountsAreNoOverrun) {
  EXPECT_THROW(run_local(2,
                         [](int rank, const std::shared_ptr<Transport>& transport) {
                           PlanOptions options = SmallPlan::make_options(8, "f32-tree-v1", {24, 48});
                           options.layout.tp = 2;
                           options.transport = transport;
                           Plan plan(options);
                           SmallPlan data(8);
                           ForwardArgs args = data.forward(rank == 0 ? 8 : 5);
                           args.weights =
                               plan.slice(data.weight(data.in.gate, false), data.weight(data.in.up, false),
                                          data.weight(data.in.down, true));
                           plan.forward(args);
                         }),
               Error);
}

}  // namespace
}  // namespace samebits::test
