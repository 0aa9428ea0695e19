// Every stage, leaf and layout on a GPU at small shapes: what compute-sanitizer runs, which slows kernels
// down a hundred times.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/block.hpp"
#include "support/engine_plan.hpp"

namespace samebits::test {
namespace {

const std::vector<std::string> kContracts = {"bf16-tree-v1", "f32-tree-v1,T=block:32", "sm90-v1,T=block:64",
                                             "hf-sm90-v1"};

using CudaSmall = OnCuda;

void expect_runs(const BlockRun& run, const BlockInputs& in) {
  const BlockOutputs expected = cpu_outputs(run.contract, in, run.f32_gradients);
  expect_same_outputs(describe(run) + " ", run_block(run, in), expected, in, run.f32_gradients);
}

BlockRun on_cuda(const std::string& contract) {
  BlockRun run;
  run.contract = parse_contract(contract);
  run.engine = EngineKind::cuda;
  return run;
}

// Whole tiles, parts of tiles, rows that only the plain kernels take, one row, no rows.
TEST_F(CudaSmall, EveryLeafOnOneRank) {
  Random random(61);
  for (const std::string& text : kContracts) {
    for (const auto& [shape, tokens] :
         {std::pair{Shape{128, 264}, std::int64_t{200}}, std::pair{Shape{136, 72}, std::int64_t{70}},
          std::pair{Shape{264, 128}, std::int64_t{130}}, std::pair{Shape{64, 136}, std::int64_t{17}},
          std::pair{Shape{33, 47}, std::int64_t{19}}, std::pair{Shape{64, 200}, std::int64_t{1}},
          std::pair{Shape{64, 64}, std::int64_t{0}}}) {
      BlockRun run = on_cuda(text);
      run.f32_gradients = tokens == 70;
      run.placement.padding = tokens == 200 ? 8 : 0;
      expect_runs(run, random_inputs(random, Values::special, shape, tokens));
    }
  }
}

TEST_F(CudaSmall, ManyTurnsOfThePipeline) {
  Random random(62);
  for (const std::string& text : kContracts) {
    expect_runs(on_cuda(text), random_inputs(random, Values::normal, {1032, 136}, 9));
    expect_runs(on_cuda(text), random_inputs(random, Values::normal, {72, 1160}, 9));
  }
}

TEST_F(CudaSmall, EveryLayout) {
  Random random(63);
  for (const std::string& text : kContracts) {
    const BlockInputs in = random_inputs(random, Values::normal, {64, 128}, 40);
    for (const std::string layout : {"tp2", "tp2+sp", "tp4", "cp2", "tp2+cp2+sp"}) {
      for (const DownCut down : {DownCut::automatic, DownCut::rows}) {
        BlockRun run = on_cuda(text);
        run.layout = parse_layout(layout);
        run.down = down;
        run.split = down == DownCut::rows ? TokenSplit::zigzag : TokenSplit::contiguous;
        if (down == DownCut::rows && run.layout.tp == 1) continue;
        expect_runs(run, in);
      }
    }
  }
}

TEST_F(CudaSmall, GradientCovers) {
  Random random(64);
  for (const std::string text : {"f32-tree-v1,T=block:16", "sm90-v1,T=block:16"}) {
    const BlockInputs in = random_inputs(random, Values::normal, {64, 72}, 64);
    BlockRun run = on_cuda(text);
    run.layout = parse_layout("tp2+cp2");
    run.gradients = GradientReduction::exchange_covers;
    expect_runs(run, in);
  }
}

}  // namespace
}  // namespace samebits::test
