// The hip engine's tile kernel, run on the host a workgroup at a time, in the place of an engine: against the
// CPU engine, bit for bit. No AMD GPU takes part; what the hardware does is settled on one (docs/rocm.md).
#include "support/emulated_tiles.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "support/block.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

const std::vector<std::string> kContracts = {"gfx942-v1",
                                             "bf16-tree-v1",
                                             "f32-tree-v1",
                                             "gfx942-v1,I=halve:4,T=block:16,node=bf16,lanes=bf16",
                                             "gfx942-v1,H=max:16,I=block:32,lanes=bf16,swiglu=two",
                                             "bf16-tree-v1,H=max:3,I=max:5,T=max:2"};

void expect_as_the_cpu(BlockRun run, const BlockInputs& in, const std::string& context) {
  run.emulated = false;
  const BlockOutputs expected = run_block(run, in);
  run.emulated = true;
  expect_same_outputs(context + ": " + describe(run) + ": ", run_block(run, in), expected, in,
                      run.f32_gradients);
}

TEST(EmulatedTiles, EveryContractAndKindOfValue) {
  Random random(611);
  for (const std::string& text : kContracts) {
    for (const Values kind : kAllValues) {
      BlockRun run;
      run.contract = parse_contract(text);
      run.placement = uniform(random, 0, 1) == 0 ? Placement{} : Placement{5, 0};
      run.f32_gradients = uniform(random, 0, 1) == 1;
      const Shape shape{uniform(random, 3, 90), uniform(random, 3, 90)};
      expect_as_the_cpu(run, random_inputs(random, kind, shape, uniform(random, 1, 70)),
                        fmt::format("{}, {}", text, name_of(kind)));
    }
  }
}

// Around the edges of tiles (128), chunks (32), fragments and groups (8, 16).
TEST(EmulatedTiles, Edges) {
  Random random(612);
  const std::vector<std::pair<Shape, std::int64_t>> sizes = {{{128, 16}, 3},  {{129, 33}, 17}, {{40, 136}, 8},
                                                             {{17, 130}, 33}, {{31, 64}, 129}, {{1, 1}, 1},
                                                             {{65, 15}, 2}};
  for (const auto& [shape, tokens] : sizes) {
    for (const char* text : {"gfx942-v1", "bf16-tree-v1"}) {
      BlockRun run;
      run.contract = parse_contract(text);
      run.placement = Placement{8, 0};
      expect_as_the_cpu(run, random_inputs(random, Values::cancelling, shape, tokens), text);
    }
  }
}

// A chain may end at -0, which one product of zeros more would make +0.
TEST(EmulatedTiles, SignsOfZero) {
  Random random(614);
  for (const Shape shape : {Shape{1, 1}, Shape{2, 1}, Shape{3, 2}, Shape{1, 3}, Shape{5, 2}}) {
    for (const char* text : {"gfx942-v1", "bf16-tree-v1", "f32-tree-v1"}) {
      BlockRun run;
      run.contract = parse_contract(text);
      expect_as_the_cpu(run, random_inputs(random, Values::subnormal, shape, 33), text);
    }
  }
}

// A weight gradient whose tokens arrive in two calls, the first of which ends inside a leaf: its accumulators
// are left behind and taken up.
TEST(EmulatedTiles, OpenLeavesGoOn) {
  Random random(615);
  constexpr std::int64_t kRows = 37, kCols = 141, kTokens = 100, kCut = 48;
  for (const char* text : {"gfx942-v1", "bf16-tree-v1,T=block:64", "f32-tree-v1"}) {
    const Contract contract = parse_contract(text);
    const numerics::AxisTree tokens = numerics::axis_tree(contract, contract.tokens, kTokens);
    engine::Problem problem;
    problem.contract = contract;
    problem.hidden = numerics::axis_tree(contract, contract.hidden, kCols);
    problem.intermediate = numerics::axis_tree(contract, contract.intermediate, kRows);
    problem.tokens = tokens;
    problem.rank_tokens = kTokens;
    problem.intermediate_held = kRows;
    const auto left = random_tensor(random, Values::cancelling, kTokens * kRows);
    const auto right = random_tensor(random, Values::cancelling, kTokens * kCols);
    const auto root_of = [&](engine::Engine& engine, std::int64_t cut) {
      std::vector<float> root(kRows * kCols), open(kRows * kCols);
      const auto block = engine.prepare(problem);
      const auto call = [&](std::int64_t begin, std::int64_t end) {
        const Interval held{begin, end};
        engine::DWeight stage;
        stage.left = {left.data() + begin * kRows, DType::bf16, end - begin, kRows, kRows, 1, {}};
        stage.right = {right.data() + begin * kCols, DType::bf16, end - begin, kCols, kCols, 1, {}};
        stage.tokens = tokens;
        stage.held = {&held, 1};
        stage.sink.cover = {root.data(), 1, kCols, 0};
        if (cut > 0) stage.open = {open.data(), kCols};
        block->d_weight(stage, {});
      };
      if (cut > 0) call(0, cut);
      call(cut, kTokens);
      return root;
    };
    const auto cpu = make_cpu_engine({1, Isa::automatic});
    const auto emulated = emulated_tiles();
    const auto whole = root_of(*cpu, 0), cut = root_of(*emulated, kCut);
    expect_same_bits(text, cut, whole, kRows, kCols);  // bf16 nodes: two in a float, in the first half
  }
}

TEST(EmulatedTiles, LayoutsExchangeTheSameCovers) {
  Random random(613);
  for (const char* text : {"gfx942-v1", "bf16-tree-v1"}) {
    for (const Layout layout : {Layout{2, 1, true}, Layout{4, 1, false}, Layout{2, 2, true}}) {
      BlockRun run;
      run.contract = parse_contract(text);
      run.layout = layout;
      expect_as_the_cpu(run, random_inputs(random, Values::normal, {48, 144}, 37), text);
    }
  }
}

}  // namespace
}  // namespace samebits::test
