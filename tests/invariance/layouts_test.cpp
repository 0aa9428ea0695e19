// One contract, one set of bits: the operator on every layout against the literal reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "numerics/walk.hpp"
#include "samebits/error.hpp"
#include "support/block.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

// Small leaves, so that small shapes have deep trees.
const std::vector<std::string> kContracts = {
    "bf16-tree-v1",
    "bf16-tree-v1,H=max:7,I=max:5,T=max:3",
    "f32-tree-v1",
    "f32-tree-v1,T=block:8,I=block:8",
    "sm90-v1,T=block:16,I=halve:2",
    "sm90-v1,I=max:32,node=bf16",
    "hf-sm90-v1",
    "gfx942-v1,T=block:16",
    "f32-tree-v1,lanes=bf16,swiglu=two,sigma=cuda",
};

const std::vector<std::string> kLayouts = {"tp1",        "tp2", "tp2+sp",  "tp4",       "tp2+cp2",
                                           "tp2+cp2+sp", "tp8", "tp4+cp2", "tp4+cp2+sp"};

reference::Outputs expected_of(const Contract& contract, const BlockInputs& in) {
  return reference::evaluate(contract, reference::trees_of(contract, in.shape, in.tokens), in.view());
}

template <class T>
T pick(Random& random, const std::vector<T>& from) {
  return from[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int64_t>(from.size()) - 1))];
}

using Layouts = OnEngine;
INSTANTIATE_TEST_SUITE_P(, Layouts, every_engine(), engine_name);

TEST_P(Layouts, EveryNamedLayoutUnderEveryContract) {
  Random random(1);
  for (const std::string& text : kContracts) {
    const Contract contract = parse_contract(text);
    if (!runs(engine(), contract)) continue;
    const BlockInputs in = random_inputs(random, Values::normal, {40, 96}, 21);
    const reference::Outputs expected = expected_of(contract, in);
    for (const std::string& layout : kLayouts) {
      BlockRun run;
      run.contract = contract;
      run.engine = engine();
      run.layout = parse_layout(layout);
      expect_equals_reference(run, in, expected, "named layouts");
    }
  }
}

// Any shape, any degree, any split of the tokens, any way to reduce, any values. SAMEBITS_ROUNDS=n runs
// longer.
TEST_P(Layouts, RandomShapesCutsAndValues) {
  const char* const rounds_text = std::getenv("SAMEBITS_ROUNDS");
  const int rounds = rounds_text != nullptr ? std::atoi(rounds_text) : 60;
  for (int round = 0; round < rounds; ++round) {
    Random random(1000 + round);
    const Contract contract = parse_contract(pick(random, kContracts));
    if (!runs(engine(), contract)) continue;
    const Values kind = kAllValues[uniform(random, 0, 5)];
    const Shape shape{uniform(random, 1, 70), uniform(random, 1, 130)};
    const std::int64_t tokens = uniform(random, 0, 3) == 0 ? uniform(random, 0, 3) : uniform(random, 4, 60);
    const BlockInputs in = random_inputs(random, kind, shape, tokens);
    const reference::Outputs expected = expected_of(contract, in);
    for (int variant = 0; variant < 4; ++variant) {
      BlockRun run;
      run.contract = contract;
      run.engine = engine();
      run.layout = {static_cast<int>(uniform(random, 1, 6)), static_cast<int>(uniform(random, 1, 3)),
                    uniform(random, 0, 1) == 1};
      run.isa = pick<Isa>(random, {Isa::plain, Isa::automatic});
      run.threads = static_cast<int>(uniform(random, 1, 2));
      run.split = pick<TokenSplit>(random, {TokenSplit::contiguous, TokenSplit::zigzag, TokenSplit::random});
      run.split_seed = random();
      run.down = pick<DownCut>(random, {DownCut::automatic, DownCut::rows});
      run.gradients =
          pick<GradientReduction>(random, {GradientReduction::automatic, GradientReduction::gather_tokens});
      run.covers = pick<CoverExchange>(
          random, {CoverExchange::automatic, CoverExchange::one_shot, CoverExchange::slice_owner});
      run.callbacks = uniform(random, 0, 3) == 0;
      run.placement.padding = uniform(random, 0, 2) == 0 ? 5 : 0;
      run.f32_gradients = uniform(random, 0, 2) == 0;
      run.given_saved = uniform(random, 0, 1) == 0;
      run.recompute = uniform(random, 0, 2) == 0;
      expect_equals_reference(run, in, expected,
                              fmt::format("round {} {} {}x{}x{}", round, name_of(kind), tokens, shape.hidden,
                                          shape.intermediate));
    }
  }
}

// Ranks that come early and late to their exchanges: a thousand runs, one result a block. SAMEBITS_ROUNDS=n
// runs others.
TEST_P(Layouts, DelaysMoveNoBit) {
  const char* const rounds_text = std::getenv("SAMEBITS_ROUNDS");
  const int blocks = 20,
            runs_each = std::max(1, (rounds_text != nullptr ? std::atoi(rounds_text) : 1000) / blocks);
  for (int i = 0; i < blocks; ++i) {
    Random random(4000 + i);
    const Contract contract = parse_contract(pick(random, kContracts));
    if (!runs(engine(), contract)) continue;
    const BlockInputs in = random_inputs(
        random, Values::normal, {uniform(random, 8, 40), uniform(random, 16, 80)}, uniform(random, 4, 24));
    const reference::Outputs expected = expected_of(contract, in);
    for (int repeat = 0; repeat < runs_each; ++repeat) {
      BlockRun run;
      run.contract = contract;
      run.engine = engine();
      run.layout = {static_cast<int>(uniform(random, 1, 4)), static_cast<int>(uniform(random, 1, 2)),
                    uniform(random, 0, 1) == 1};
      run.split = pick<TokenSplit>(random, {TokenSplit::contiguous, TokenSplit::zigzag});
      run.covers = pick<CoverExchange>(random, {CoverExchange::one_shot, CoverExchange::slice_owner});
      run.delays = 300;
      run.delay_seed = random();
      expect_equals_reference(run, in, expected, fmt::format("block {}, run {}", i, repeat));
      if (HasFailure()) return;
    }
  }
}

// Shards that cut between leaves: covers of weight gradients cross context ranks, of several nodes a rank.
TEST_P(Layouts, GradientCoversCrossContextRanks) {
  Random random(2);
  for (const std::string text :
       {"f32-tree-v1,T=block:8", "bf16-tree-v1,T=block:8,H=max:9,I=max:9", "sm90-v1,T=block:16"}) {
    const Contract contract = parse_contract(text);
    const std::int64_t leaf = contract.tokens.value, tokens = 11 * leaf + 3;
    const BlockInputs in = random_inputs(random, Values::normal, {24, 48}, tokens);
    const reference::Outputs expected = expected_of(contract, in);
    for (const int cp : {2, 3}) {
      for (const int tp : {1, 2}) {
        std::vector<std::vector<Interval>> of_rank(static_cast<std::size_t>(cp));
        for (std::int64_t at = 0, turn = 0; at < tokens; ++turn) {  // leaf-aligned, interleaved
          const std::int64_t end = std::min(tokens, at + leaf * (1 + turn % 3));
          of_rank[static_cast<std::size_t>(turn % cp)].push_back({at, end});
          at = end;
        }
        BlockRun run;
        run.contract = contract;
        run.engine = engine();
        run.layout = {tp, cp, false};
        run.shards = TokenShards::of(of_rank);
        run.gradients = GradientReduction::exchange_covers;
        run.f32_gradients = tp == 2;
        expect_equals_reference(run, in, expected, "gradient covers");
      }
    }
  }
}

// Machines of several context ranks: covers are joined inside a machine before they travel between machines,
// what is gathered crosses once.
TEST_P(Layouts, TwoLevelsOfContextRanks) {
  Random random(4);
  for (const std::string text :
       {"f32-tree-v1,T=block:8", "bf16-tree-v1,T=max:9", "sm90-v1,T=block:16", "hf-sm90-v1"}) {
    const Contract contract = parse_contract(text);
    const std::int64_t tokens = 11 * 16 + 3;
    const BlockInputs in = random_inputs(random, Values::normal, {24, 48}, tokens);
    const reference::Outputs expected = expected_of(contract, in);
    const numerics::AxisTree tree = numerics::axis_tree(contract, contract.tokens, tokens);
    for (const auto& [cp, together] : {std::pair{4, 2}, {6, 2}, {6, 3}, {8, 4}}) {
      // Leaf by leaf to ranks, in runs or in turn.
      const std::int64_t run_of = uniform(random, 1, 3);
      std::vector<std::vector<Interval>> of_rank(static_cast<std::size_t>(cp));
      std::int64_t turn = 0;
      numerics::for_each_leaf(tree, 0, tokens, [&](const numerics::WalkStep& leaf) {
        auto& held = of_rank[static_cast<std::size_t>(turn++ / run_of % cp)];
        if (!held.empty() && held.back().end == leaf.begin) {
          held.back().end = leaf.end;
        } else {
          held.push_back({leaf.begin, leaf.end});
        }
      });
      for (const auto reduction : {GradientReduction::exchange_covers, GradientReduction::gather_tokens}) {
        BlockRun run;
        run.contract = contract;
        run.engine = engine();
        run.layout = {static_cast<int>(uniform(random, 1, 2)), cp, false};
        run.ranks_per_node = run.layout.tp * together;
        run.shards = TokenShards::of(of_rank);
        run.gradients = reduction;
        if (uniform(random, 0, 1) == 0)
          run.gradient_bytes = static_cast<std::size_t>(48 * 4 * uniform(random, 40, 160));
        run.callbacks = uniform(random, 0, 1) == 0;
        run.f32_gradients = uniform(random, 0, 1) == 0;
        expect_equals_reference(run, in, expected, "two levels");
      }
    }
  }
}

// `block` trees give ranks of uneven degrees several cover nodes; uneven cuts fall at leaf boundaries.
TEST_P(Layouts, UnevenTensorDegreesByColumns) {
  Random random(3);
  const Contract contract = parse_contract("f32-tree-v1,I=block:8");
  const BlockInputs in = random_inputs(random, Values::cancelling, {16, 104}, 9);
  const reference::Outputs expected = expected_of(contract, in);
  for (const int tp : {3, 5, 6, 12, 13}) {
    BlockRun run;
    run.contract = contract;
    run.engine = engine();
    run.layout = {tp, 1, tp % 2 == 1};
    run.down = DownCut::columns;
    expect_equals_reference(run, in, expected, "uneven degrees");
  }
}

// The checks above can fail: one moved split changes elements of every result that the tree of I or of tokens
// reaches.
TEST_P(Layouts, AMovedSplitIsSeen) {
  Random random(4);
  for (const std::string text :
       {"bf16-tree-v1", "f32-tree-v1,T=block:8", "sm90-v1,T=block:16", "hf-sm90-v1"}) {
    const Contract contract = parse_contract(text);
    constexpr std::int64_t kTokens = 512, kHidden = 192;
    const BlockInputs in = random_inputs(random, Values::cancelling, {kHidden, 768}, kTokens);
    BlockRun run;
    run.contract = contract;
    run.engine = engine();
    run.f32_gradients = true;
    const BlockOutputs right = run_block(run, in);
    run.control = true;
    const BlockOutputs moved = run_block(run, in);
    const auto elements = static_cast<std::int64_t>(right.d_gate_f32.size());
    EXPECT_GT(count_differing(right.y.data(), moved.y.data(), kTokens * kHidden), 0) << text;
    EXPECT_GT(count_differing(right.dx.data(), moved.dx.data(), kTokens * kHidden), 0) << text;
    EXPECT_GT(count_differing(right.d_gate_f32.data(), moved.d_gate_f32.data(), elements), 0) << text;
    EXPECT_GT(count_differing(right.d_down_f32.data(), moved.d_down_f32.data(), elements), 0) << text;
  }
}

}  // namespace
}  // namespace samebits::test
