// What an accumulator refuses; after a refusal it holds what it held.
#include "samebits/accumulator.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "samebits/error.hpp"
#include "support/equality.hpp"
#include "support/failing.hpp"
#include "support/message_of.hpp"
#include "support/small_plan.hpp"

namespace samebits::test {
namespace {

// One rank, calls of up to 64 tokens; token t of the sequence is row t mod 64 of x and dy.
struct Stream {
  explicit Stream(const char* contract, const AccumulatorOptions& options = {.max_tokens = 256})
      : small(64, contract), sum(small.plan, options) {}

  BackwardArgs call(std::int64_t tokens) {
    small.plan.forward(small.forward(tokens));
    BackwardArgs args = small.backward(tokens);
    args.d_gate = args.d_up = args.d_down = {};
    args.accumulate = &sum;
    return args;
  }
  void add(std::int64_t tokens) { small.plan.backward(call(tokens)); }
  Gradients out() {
    const BackwardArgs args = small.backward(1);
    return {args.d_gate, args.d_up, args.d_down};
  }
  std::vector<std::uint16_t> finished() {
    sum.finish(out());
    return small.d_gate;
  }

  SmallPlan small;
  GradientAccumulator sum;
};

TEST(Accumulator, TreesThatDependOnTheLengthNeedIt) {
  for (const char* contract : {"bf16-tree-v1", "f32-tree-v1,T=halve:2"})
    expect_says(message_of(ErrorCode::invalid_argument, [&] { Stream stream(contract); }),
                "AccumulatorOptions::tokens");
  Stream("bf16-tree-v1", {.max_tokens = 64, .tokens = 64});
  Stream("hf-sm90-v1");
}

TEST(Accumulator, RefusesWhatItCannotAdd) {
  Stream stream("sm90-v1,T=block:32", {.max_tokens = 96});
  stream.add(40);
  // 40 is inside the leaf from 32 on, and no multiple of 16 from there.
  const std::string cut = message_of(ErrorCode::invalid_argument, [&] { stream.add(8); });
  expect_says(cut, "token 40");
  expect_says(cut, "multiples of 16");

  Stream more("sm90-v1,T=block:32", {.max_tokens = 96});
  more.add(48);
  expect_says(message_of(ErrorCode::invalid_argument, [&] { more.add(64); }), "48 to 112");
  std::vector<std::vector<Interval>> places = {{{64, 80}}};
  BackwardArgs args = more.call(16);
  args.places = &places;
  expect_says(message_of(ErrorCode::invalid_argument, [&] { more.small.plan.backward(args); }),
              "must go on with token 48");
  places = {{{0, 16}}};
  expect_says(message_of(ErrorCode::invalid_argument, [&] { more.small.plan.backward(args); }), "token 48");
  places = {{{48, 50}}};
  expect_says(message_of(ErrorCode::invalid_argument, [&] { more.small.plan.backward(args); }),
              "places for 2 tokens");
  places = {{{48, 56}, {56, 56}}};
  expect_says(message_of(ErrorCode::invalid_argument, [&] { more.small.plan.backward(args); }), "is empty");
  places = {{{48, 64}}, {}};
  expect_says(message_of(ErrorCode::invalid_argument, [&] { more.small.plan.backward(args); }),
              "2 context ranks");
  EXPECT_EQ(more.sum.tokens(), 48);

  // And goes on as if nothing had been asked.
  args.places = nullptr;
  more.small.plan.backward(args);
  Stream whole("sm90-v1,T=block:32", {.max_tokens = 96});
  whole.add(48);
  whole.add(16);
  expect_same_bits("d_gate", more.finished(), whole.finished(), 48, 24);
}

TEST(Accumulator, RefusesToFinishWithTokensMissing) {
  Stream stream("f32-tree-v1,T=block:16");
  std::vector<std::vector<Interval>> places = {{{16, 48}}};
  BackwardArgs args = stream.call(32);
  args.places = &places;
  stream.small.plan.backward(args);
  expect_says(message_of(ErrorCode::invalid_argument, [&] { stream.sum.finish(stream.out()); }), "missing");
  places = {{{0, 16}}};
  BackwardArgs rest = stream.call(16);
  rest.places = &places;
  stream.small.plan.backward(rest);
  stream.sum.finish(stream.out());

  Stream announced("bf16-tree-v1", {.max_tokens = 64, .tokens = 64});
  announced.add(60);
  expect_says(message_of(ErrorCode::invalid_argument, [&] { announced.sum.finish(announced.out()); }),
              "60 tokens were added of the 64");
  announced.sum.clear();
  EXPECT_EQ(announced.sum.tokens(), 0);
}

TEST(Accumulator, RefusesWhatIsNotItsOwn) {
  Stream stream("f32-tree-v1"), other("f32-tree-v1");
  BackwardArgs args = stream.call(8);
  args.accumulate = &other.sum;
  expect_says(message_of(ErrorCode::invalid_argument, [&] { stream.small.plan.backward(args); }),
              "another plan");
  args = stream.small.backward(8);
  args.accumulate = &stream.sum;
  expect_says(message_of(ErrorCode::invalid_argument, [&] { stream.small.plan.backward(args); }),
              "leave d_gate");
  args.accumulate = nullptr;
  args.counted = 9;
  expect_says(message_of(ErrorCode::invalid_argument, [&] { stream.small.plan.backward(args); }),
              "9 tokens to count of 8");
  const std::vector<std::vector<Interval>> places = {{{0, 8}}};
  args.counted = -1;
  args.places = &places;
  expect_says(message_of(ErrorCode::invalid_argument, [&] { stream.small.plan.backward(args); }),
              "accumulator too");
  PlanOptions inference = SmallPlan::make_options(8, "f32-tree-v1", {24, 48});
  inference.backward = false;
  Plan plan(inference);
  expect_says(
      message_of(ErrorCode::invalid_argument, [&] { GradientAccumulator sum(plan, {.max_tokens = 8}); }),
      "backward");
}

// Whichever stage of an adding backward fails: the sum says so until it is cleared, or is as it was.
TEST(Accumulator, AHalfAddedSumIsNotGoneOnWith) {
  int half_added = 0, untouched = 0;
  for (int failing = 1; failing < 40; ++failing) {
    PlanOptions options = SmallPlan::make_options(64, "f32-tree-v1,T=block:16", {24, 48});
    options.engine = std::make_shared<FailingEngine>(failing);
    Plan plan(options);
    GradientAccumulator sum(plan, {.max_tokens = 256});
    SmallPlan data(64, "f32-tree-v1,T=block:16");
    std::vector<std::uint16_t> whole;
    const auto add = [&] {
      plan.forward(data.forward(40));
      BackwardArgs args = data.backward(40);
      args.d_gate = args.d_up = args.d_down = {};
      args.accumulate = &sum;
      plan.backward(args);
    };
    const auto finish = [&] {
      const BackwardArgs args = data.backward(1);
      sum.finish({args.d_gate, args.d_up, args.d_down});
      return data.d_gate;
    };
    bool failed = false;
    try {
      add();
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::out_of_memory);
      failed = true;
    }
    if (!failed) break;
    EXPECT_EQ(sum.tokens(), 0);
    try {
      add();
      ++untouched;
    } catch (const Error& error) {
      expect_says(error.what(), "clear it");
      EXPECT_THROW(finish(), Error);
      ++half_added;
      sum.clear();
      add();
    }
    Stream right("f32-tree-v1,T=block:16");
    right.add(40);
    expect_same_bits("d_gate", finish(), right.finished(), 48, 24);
  }
  EXPECT_GT(half_added, 3);
  EXPECT_GT(untouched, 1);
}

// Between ranks a leaf may not be cut unless tokens are gathered; the message says so.
TEST(Accumulator, RanksThatCutInsideALeafAreToldWhatToDo) {
  const std::string message = message_of(ErrorCode::invalid_argument, [] {
    run_local(2, [](int, std::shared_ptr<Transport> transport) {
      PlanOptions options = SmallPlan::make_options(24, "f32-tree-v1,T=block:16", {24, 48});
      options.layout = {1, 2, false};
      options.transport = std::move(transport);
      Plan plan(options);
      GradientAccumulator sum(plan, {.max_tokens = 24, .reduction = GradientReduction::exchange_covers});
      SmallPlan data(12);
      ForwardArgs forward = data.forward(12);
      forward.tokens = 24;
      plan.forward(forward);
      BackwardArgs backward = data.backward(12);
      backward.tokens = 24;
      backward.d_gate = backward.d_up = backward.d_down = {};
      backward.accumulate = &sum;
      plan.backward(backward);
    });
  });
  expect_says(message, "cut between leaves");
  expect_says(message, "gather the tokens");
}

// Numbers that no machine has memory for are refused at once, not counted out.
TEST(Accumulator, RefusesSizesBeyondAllMeasure) {
  SmallPlan small(16, "f32-tree-v1");
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  for (const AccumulatorOptions& options :
       {AccumulatorOptions{.max_tokens = kHuge}, AccumulatorOptions{.max_tokens = kHuge, .tokens = kHuge},
        AccumulatorOptions{.max_tokens = -1}, AccumulatorOptions{.max_tokens = 4096, .stretches = 1 << 30},
        AccumulatorOptions{.max_tokens = 4096, .stretches = std::numeric_limits<int>::max()},
        AccumulatorOptions{.max_tokens = 16, .stretches = 0}}) {
    message_of(ErrorCode::invalid_argument, [&] { GradientAccumulator sum(small.plan, options); });
  }
  GradientAccumulator many(small.plan, {.max_tokens = std::int64_t{1} << 45});
  EXPECT_EQ(many.tokens(), 0);
}

TEST(Accumulator, RanksCompareWhatTheyWereGiven) {
  const std::string message = message_of(ErrorCode::disagreement, [] {
    run_local(2, [](int rank, std::shared_ptr<Transport> transport) {
      PlanOptions options = SmallPlan::make_options(16, "f32-tree-v1", {24, 48});
      options.layout = {1, 2, false};
      options.transport = std::move(transport);
      Plan plan(options);
      GradientAccumulator sum(plan, {.max_tokens = 16 + rank});
    });
  });
  expect_says(message, "rank 1 has accumulator");
  expect_says(message, "17 tokens");
}

// What every rank refuses leaves the transport in use.
TEST(Accumulator, AfterARefusalOfAllRanksThePlanServes) {
  run_local(2, [](int rank, std::shared_ptr<Transport> transport) {
    PlanOptions options = SmallPlan::make_options(16, "bf16-tree-v1", {24, 48});
    options.layout = {1, 2, false};
    options.transport = std::move(transport);
    Plan plan(options);
    const auto refused = [&](ErrorCode code, const AccumulatorOptions& of) {
      message_of(code, [&] { GradientAccumulator sum(plan, of); });
    };
    refused(ErrorCode::invalid_argument, {.max_tokens = -1});
    refused(ErrorCode::invalid_argument, {.max_tokens = 16});  // the tree wants their number
    refused(ErrorCode::invalid_argument, {.max_tokens = 16, .tokens = -5});
    refused(ErrorCode::invalid_argument, {.max_tokens = 16, .tokens = 16, .stretches = 0});
    refused(ErrorCode::disagreement, {.max_tokens = 16, .tokens = 15 + rank});
    const GradientAccumulator sum(plan, {.max_tokens = 16, .tokens = 16});
    EXPECT_EQ(sum.tokens(), 0);
  });
}

// One f32 matrix a gradient for a single leaf, a stack of nodes and one more for a tree.
TEST(Accumulator, MemoryIsAStackOfNodes) {
  const std::size_t gradients = 3 * 24 * 48, scratch = PlanOptions{}.gradient_bytes;
  EXPECT_EQ(Stream("hf-sm90-v1").sum.bytes(), scratch + gradients * 4);  // the open leaf alone
  const Stream tree("f32-tree-v1,T=block:16");  // 15 leaves leave four nodes, and the open leaf
  EXPECT_EQ(tree.sum.bytes(), scratch + gradients * 4 * 5);
  const Stream half("f32-tree-v1,T=block:16,node=bf16");
  EXPECT_EQ(half.sum.bytes(), scratch + gradients * (2 * 4 + 4));
}

}  // namespace
}  // namespace samebits::test
