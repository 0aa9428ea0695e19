// What a plan accepts, refuses and chooses.
#include "samebits/plan.hpp"

#include <gtest/gtest.h>

#include "samebits/error.hpp"
#include "support/equality.hpp"
#include "support/message_of.hpp"
#include "support/small_plan.hpp"

namespace samebits::test {
namespace {

PlanOptions options_for(int tp, const char* contract, DownCut down) {
  PlanOptions options = SmallPlan::make_options(4, contract, {32, 256});
  options.layout.tp = tp;
  options.down = down;
  return options;
}

// Every rank of a layout builds its plan; the first error is thrown.
DownCut build(const PlanOptions& given) {
  DownCut chosen{};
  run_local(given.layout.ranks(), [&](int rank, const std::shared_ptr<Transport>& transport) {
    PlanOptions options = given;
    options.transport = transport;
    const Plan plan(options);
    if (rank == 0) chosen = plan.down();
  });
  return chosen;
}

TEST(Plan, ChoosesColumnsWhereTheTreeAllowsRowsElsewhere) {
  EXPECT_EQ(build(options_for(4, "sm90-v1", DownCut::automatic)), DownCut::columns);
  EXPECT_EQ(build(options_for(3, "sm90-v1", DownCut::automatic)), DownCut::columns);
  EXPECT_EQ(build(options_for(2, "hf-sm90-v1", DownCut::automatic)), DownCut::rows);
  EXPECT_EQ(build(options_for(9, "sm90-v1", DownCut::automatic)), DownCut::rows);
}

TEST(Plan, ColumnsInsideALeafNameTheLegalDegrees) {
  const std::string message =
      message_of(ErrorCode::refused, [] { build(options_for(9, "sm90-v1", DownCut::columns)); });
  expect_says(message, "tp9");
  expect_says(message, "1 to 8");
  expect_says(message_of(ErrorCode::refused, [] { build(options_for(2, "hf-sm90-v1", DownCut::columns)); }),
              "1 leaf");
}

// What every rank refuses is told to nobody, and the transport serves the next plan.
TEST(Plan, AfterARefusalOfAllRanksTheTransportServes) {
  run_local(2, [](int rank, const std::shared_ptr<Transport>& transport) {
    PlanOptions options = options_for(2, "hf-sm90-v1", DownCut::columns);
    options.transport = transport;
    const auto refused = [&](ErrorCode code, const char* words) {
      expect_says(message_of(code, [&] { Plan plan(options); }), words);
    };
    refused(ErrorCode::refused, "no tp above 1 cuts between leaves");
    options.down = DownCut::rows;
    options.weights = WeightCut::once;
    refused(ErrorCode::refused, "hold the weights cut both ways");
    options.weights = WeightCut::automatic;
    options.max_tokens = 4 + rank;
    refused(ErrorCode::disagreement, "rank 1 has most tokens 5");
    options.max_tokens = -1;
    refused(ErrorCode::invalid_argument, "not negative");
    options.max_tokens = 4;
    options.layout.tp = 3;
    refused(ErrorCode::invalid_argument, "has 3 ranks");
    options.layout = {3, 1431655766, false};  // 2 ranks, to 32 bits
    refused(ErrorCode::invalid_argument, "has 4294967298 ranks");
    options.layout = {2, 1, false};
    options.ranks_per_node = -1;
    refused(ErrorCode::invalid_argument, "-1 ranks a node");
    options.ranks_per_node = 0;
    options.max_rank_tokens = std::int64_t{1} << 61;
    refused(ErrorCode::invalid_argument, "more bytes than 63 bits count");
    options.max_rank_tokens = 0;
    EXPECT_EQ(Plan(options).down(), DownCut::rows);
  });
}

TEST(Plan, BackwardByRowsNeedsBothCuts) {
  PlanOptions options = options_for(2, "hf-sm90-v1", DownCut::rows);
  options.weights = WeightCut::once;
  expect_says(message_of(ErrorCode::refused, [&] { build(options); }), "both");
  options.backward = false;
  EXPECT_EQ(build(options), DownCut::rows);
}

TEST(Plan, RefusesNonsense) {
  const auto with = [](auto change) {
    PlanOptions options = SmallPlan::make_options(4, "f32-tree-v1", {8, 8});
    change(options);
    return message_of(ErrorCode::invalid_argument, [&] { Plan plan(options); });
  };
  expect_says(with([](PlanOptions& o) { o.shape.hidden = 0; }), "count from 1");
  expect_says(with([](PlanOptions& o) { o.max_tokens = -1; }), "negative");
  expect_says(with([](PlanOptions& o) { o.max_tokens = std::int64_t{1} << 60; }), "63 bits");
  expect_says(with([](PlanOptions& o) { o.chunks.least_rows = 0; }), "at least 0 rows");
  expect_says(with([](PlanOptions& o) { o.layout.tp = 2; }), "2 ranks");
  expect_says(with([](PlanOptions& o) { o.layout.cp = 0; }), "from 1");
}

TEST(Plan, RefusesWrongViews) {
  SmallPlan small(4);
  const auto forward_with = [&](auto change) {
    ForwardArgs args = small.forward(4);
    change(args);
    return message_of(ErrorCode::invalid_argument, [&] { small.plan.forward(args); });
  };
  expect_says(forward_with([](ForwardArgs& a) { a.x.cols = 7; }), "x is 4 x 7");
  expect_says(forward_with([](ForwardArgs& a) { a.y.dtype = DType::f32; }), "y is f32");
  expect_says(forward_with([](ForwardArgs& a) { a.y.data = nullptr; }), "y has no data");
  expect_says(forward_with([](ForwardArgs& a) { a.weights.up.rows = 47; }), "up is 47 x 24");
  expect_says(forward_with([](ForwardArgs& a) { a.weights.down.device.space = MemorySpace::cuda; }),
              "down lies on another device");
  expect_says(forward_with([](ForwardArgs& a) { a.tokens = 3; }), "x is 4 x 24");
  expect_says(forward_with([](ForwardArgs& a) { a.tokens = 99; }), "99 tokens");
  expect_says(forward_with([](ForwardArgs& a) { a.x.data = static_cast<const char*>(a.x.data) + 1; }),
              "no multiple of 2");
  BackwardArgs args = small.backward(4);
  args.d_up = {};
  expect_says(message_of(ErrorCode::invalid_argument, [&] { small.plan.backward(args); }), "d_up");
  args = small.backward(4);
  args.d_down.dtype = DType::f32;
  expect_says(message_of(ErrorCode::invalid_argument, [&] { small.plan.backward(args); }), "one dtype");
}

TEST(Plan, RefusesShardsThatDoNotTileTheTokens) {
  SmallPlan small(4);
  const auto with = [&](std::vector<std::vector<Interval>> of_rank) {
    const TokenShards shards{4, std::move(of_rank)};
    ForwardArgs args = small.forward(4);
    args.shards = &shards;
    return message_of(ErrorCode::invalid_argument, [&] { small.plan.forward(args); });
  };
  expect_says(with({{{0, 2}, {2, 4}}}), "tile");  // neighbours must be one interval
  expect_says(with({{{0, 3}}}), "tile");
  expect_says(with({{{0, 5}}}), "tile");
  expect_says(with({{{1, 4}}}), "tile");
  expect_says(with({{{0, 4}}, {}}), "2 context ranks");
}

TEST(Plan, SliceChecksTheWholeWeights) {
  const SmallPlan small(4);
  ConstView down = small.weight(small.in.down, true);
  std::swap(down.rows, down.cols);
  expect_says(message_of(ErrorCode::invalid_argument,
                         [&] {
                           small.plan.slice(small.weight(small.in.gate, false),
                                            small.weight(small.in.up, false), down);
                         }),
              "down is 48 x 24");
}

TEST(Plan, BackwardNeedsTheForwardItBelongsTo) {
  SmallPlan small(4);
  expect_says(message_of(ErrorCode::invalid_argument, [&] { small.plan.backward(small.backward(4)); }),
              "before any forward");
  small.plan.forward(small.forward(4));
  small.plan.forward(small.forward(1));
  expect_says(message_of(ErrorCode::invalid_argument, [&] { small.plan.backward(small.backward(4)); }),
              "last forward had 1");
}

// As many tokens in all, and others here: what the forward left is not theirs.
TEST(Plan, BackwardOfOtherShardsThanTheForwardHad) {
  run_local(2, [](int rank, const std::shared_ptr<Transport>& transport) {
    PlanOptions options = SmallPlan::make_options(6, "f32-tree-v1", {24, 48});
    options.layout.cp = 2;
    options.max_rank_tokens = 6;
    options.transport = transport;
    Plan plan(options);
    SmallPlan data(6);
    const TokenShards left = TokenShards::of({{{0, 2}}, {{2, 6}}}),
                      other = TokenShards::of({{{0, 4}}, {{4, 6}}}), one = TokenShards::of({{{0, 6}}, {}});
    const auto forward = [&](const TokenShards& shards, bool own) {
      ForwardArgs args = data.forward(shards.count(rank));
      args.shards = &shards;
      std::vector<std::uint16_t> room(6 * 48);
      // Of no tokens a view has no data, as PyTorch's empty tensors.
      const View view = host_view(shards.count(rank) > 0 ? room.data() : nullptr, shards.count(rank), 48);
      if (!own) args.saved = {view, view, view};
      plan.forward(args);
    };
    const auto backward = [&](const TokenShards& shards) {
      BackwardArgs args = data.backward(shards.count(rank));
      args.shards = &shards;
      args.d_gate = args.d_up = args.d_down = {};
      plan.backward(args);
    };
    forward(left, true);
    forward(one, false);  // leaves nothing in the plan, nor does a rank without tokens
    backward(left);
    forward(left, true);
    expect_says(message_of(ErrorCode::invalid_argument, [&] { backward(other); }), "other tokens");
  });
}

TEST(Plan, CountsBelowZero) {
  SmallPlan small(4);
  ForwardArgs args = small.forward(4);
  args.tokens = -5;
  expect_says(message_of(ErrorCode::invalid_argument, [&] { small.plan.forward(args); }), "-5 tokens");
}

// A tensor rank may hold no rows of I: what is left there has no elements.
TEST(Plan, ARankWithoutRowsNeedsNoRoom) {
  run_local(3, [](int, const std::shared_ptr<Transport>& transport) {
    PlanOptions options = SmallPlan::make_options(4, "f32-tree-v1", {8, 2});
    options.layout.tp = 3;
    options.own_saved = false;
    options.transport = transport;
    Plan plan(options);
    const SmallPlan data(4, "f32-tree-v1", {8, 2});
    const std::int64_t held = plan.shard().intermediate.length();
    std::vector<std::uint16_t> room(static_cast<std::size_t>(4 * held)), y(4 * 8);
    ForwardArgs args;
    args.x = host_view(static_cast<const void*>(data.in.x.data()), 4, 8);
    args.y = host_view(y.data(), 4, 8);
    args.weights = plan.slice(data.weight(data.in.gate, false), data.weight(data.in.up, false),
                              data.weight(data.in.down, true));
    const View view = host_view(room.data(), 4, held);
    if (held > 0) args.saved = {view, view, view};
    plan.forward(args);
  });
}

TEST(Plan, TheTransportMustReachTheEnginesMemory) {
  PlanOptions options = SmallPlan::make_options(4, "f32-tree-v1", {24, 48});
  options.layout.tp = 2;
  TransportCallbacks callbacks;
  callbacks.all_gather = [](auto&&...) {};
  callbacks.all_to_all = [](auto&&...) {};
  callbacks.spaces = {MemorySpace::cuda};
  options.transport = callback_transport(0, 2, callbacks);
  expect_says(message_of(ErrorCode::refused, [&] { Plan plan(options); }), "does not reach");
}

TEST(Plan, AnInferencePlanHasNoBackward) {
  PlanOptions options = SmallPlan::make_options(4, "f32-tree-v1", {24, 48});
  options.backward = false;
  Plan plan(options);
  SmallPlan small(4);
  expect_says(message_of(ErrorCode::invalid_argument, [&] { plan.backward(small.backward(4)); }),
              "without backward");
}

TEST(Plan, EveryTokenCountUpToTheMost) {
  SmallPlan small(9, "bf16-tree-v1");
  const auto trees = [&](std::int64_t tokens) {
    return reference::trees_of(small.options.contract, small.in.shape, tokens);
  };
  for (const std::int64_t tokens : {9, 0, 1, 5}) {
    BlockInputs part = small.in;
    part.tokens = tokens;
    const reference::Outputs expected =
        reference::evaluate(small.options.contract, trees(tokens), part.view());
    small.plan.forward(small.forward(tokens));
    small.plan.backward(small.backward(tokens));
    expect_same_bits("y", small.y.data(), expected.y.data(), tokens, 24);
    expect_same_bits("dx", small.dx.data(), expected.dx.data(), tokens, 24);
    expect_same_bits("d_gate", small.d_gate.data(), expected.d_gate.data(), 48, 24);  // zeros for no tokens
    expect_same_bits("d_down", small.d_down.data(), expected.d_down.data(), 24, 48);
  }
}

// A caller that keeps its own activations may run several forwards before their backwards.
TEST(Plan, SavedActivationsAreTheCallers) {
  SmallPlan a(4), b(4);
  std::vector<std::uint16_t> gate(4 * 48), up(4 * 48), act(4 * 48);
  const Saved saved{host_view(gate.data(), 4, 48), host_view(up.data(), 4, 48), host_view(act.data(), 4, 48)};
  ForwardArgs first = a.forward(4);
  first.saved = saved;
  a.plan.forward(first);
  ForwardArgs other = a.forward(2);
  other.x = host_view(static_cast<const void*>(a.in.dy.data()), 2, 24);
  a.plan.forward(other);  // overwrites the plan's own
  BackwardArgs back = a.backward(4);
  back.saved = saved;
  a.plan.backward(back);
  b.plan.forward(b.forward(4));
  b.plan.backward(b.backward(4));
  expect_same_bits("dx", a.dx.data(), b.dx.data(), 4, 24);
  expect_same_bits("d_down", a.d_down.data(), b.d_down.data(), 24, 48);
}

TEST(Plan, WithoutRoomOfItsOwnActivationsAreGiven) {
  SmallPlan whole(4);
  PlanOptions options = whole.options;
  options.own_saved = false;
  Plan plan(options);
  EXPECT_EQ(whole.plan.workspace_bytes() - plan.workspace_bytes(), 3 * 4 * 48 * sizeof(std::uint16_t));
  expect_says(message_of(ErrorCode::invalid_argument, [&] { plan.forward(whole.forward(4)); }),
              "no room of its own");
  expect_says(message_of(ErrorCode::invalid_argument, [&] { plan.backward(whole.backward(4)); }),
              "before any forward");

  whole.plan.forward(whole.forward(4));
  whole.plan.backward(whole.backward(4));
  SmallPlan other(4);
  std::vector<std::uint16_t> gate(4 * 48), up(4 * 48), act(4 * 48);
  const Saved saved{host_view(gate.data(), 4, 48), host_view(up.data(), 4, 48), host_view(act.data(), 4, 48)};
  ForwardArgs forward = other.forward(4);
  forward.saved = saved;
  plan.forward(forward);
  BackwardArgs backward = other.backward(4);
  backward.saved = saved;
  plan.backward(backward);
  expect_same_bits("y", other.y.data(), whole.y.data(), 4, 24);
  expect_same_bits("dx", other.dx.data(), whole.dx.data(), 4, 24);
  expect_same_bits("d_down", other.d_down.data(), whole.d_down.data(), 24, 48);
  plan.forward(other.forward(0));  // nothing to leave
  plan.backward(other.backward(0));
}

// Activations that were not kept are computed anew, without the result.
TEST(Plan, AForwardWithoutItsResult) {
  SmallPlan whole(4), again(4);
  whole.plan.forward(whole.forward(4));
  whole.plan.backward(whole.backward(4));
  ForwardArgs forward = again.forward(4);
  forward.y = {};
  forward.weights.down = {};  // not read
  again.plan.forward(forward);
  again.plan.backward(again.backward(4));
  expect_same_bits("dx", again.dx.data(), whole.dx.data(), 4, 24);
  expect_same_bits("d_gate", again.d_gate.data(), whole.d_gate.data(), 48, 24);
  expect_same_bits("d_down", again.d_down.data(), whole.d_down.data(), 24, 48);

  PlanOptions options = whole.options;
  options.backward = false;
  Plan inference(options);
  expect_says(message_of(ErrorCode::invalid_argument, [&] { inference.forward(forward); }),
              "nothing of an inference");
}

TEST(Plan, DxOrGradientsAlone) {
  SmallPlan a(4), b(4);
  a.plan.forward(a.forward(4));
  a.plan.backward(a.backward(4));
  b.plan.forward(b.forward(4));
  BackwardArgs only = b.backward(4);
  only.dx = {};
  b.plan.backward(only);
  only = b.backward(4);
  only.d_gate = only.d_up = only.d_down = {};
  b.plan.backward(only);
  expect_same_bits("dx", a.dx.data(), b.dx.data(), 4, 24);
  expect_same_bits("d_up", a.d_up.data(), b.d_up.data(), 48, 24);
}

}  // namespace
}  // namespace samebits::test
