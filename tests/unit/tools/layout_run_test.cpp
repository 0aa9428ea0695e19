// A layout's run sees a wrong element wherever it stands, once for every rank that holds it.
#include "block/layout_run.hpp"

#include <gtest/gtest.h>

#include "small_block.hpp"

namespace samebits::tools {
namespace {

PerTensor<std::int64_t> differing(const Compute& compute, const SmallBlock& small, const char* layout,
                                  const BlockTensors& exact) {
  BlockTensors out(small.block().shape, small.block().tokens, small.block().gradients);
  return run_layout(compute, small.block(), {.layout = parse_layout(layout), .exact = &exact}, out).differing;
}

constexpr PerTensor<std::int64_t> kNone{};

TEST(LayoutRun, AgreesWithTp1) {
  for (const char* split : {"contiguous", "zigzag"}) {
    for (const DType gradients : {DType::bf16, DType::f32}) {
      const Compute compute = compute_with("bf16-tree-v1", split);
      const SmallBlock small({64, 208}, 13, gradients);
      const BlockTensors exact = small.run(compute);
      for (const char* layout : {"tp1", "tp2", "tp2+sp", "tp3+cp2+sp", "cp2", "tp2+cp3"}) {
        SCOPED_TRACE(layout);
        EXPECT_EQ(differing(compute, small, layout, exact), kNone);
        const BlockTensors made = small.run(compute, parse_layout(layout));
        EXPECT_EQ(digests_of(made, 1), digests_of(exact, 1));
      }
    }
  }
}

TEST(LayoutRun, CountsAWrongElementForEveryRankThatHoldsIt) {
  const Compute compute = compute_with();
  const SmallBlock small;
  BlockTensors exact = small.run(compute);
  spoil(exact, kOutput, 6, 63);
  spoil(exact, kHiddenGradient, 0, 0);
  spoil(exact, kGateGradient, 207, 1);
  spoil(exact, kUpGradient, 0, 63);
  spoil(exact, kDownGradient, 63, 207);
  // Both outputs are held against the inference output of TP1.
  EXPECT_EQ(differing(compute, small, "tp1", exact), (PerTensor<std::int64_t>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(differing(compute, small, "tp2", exact), (PerTensor<std::int64_t>{2, 2, 2, 1, 1, 1}));
  EXPECT_EQ(differing(compute, small, "tp2+sp", exact), (PerTensor<std::int64_t>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(differing(compute, small, "tp2+cp3+sp", exact), (PerTensor<std::int64_t>{1, 1, 1, 3, 3, 3}));
}

TEST(LayoutRun, TheControlChangesEveryTensor) {
  const Compute compute = compute_with();
  const SmallBlock small({64, 208}, 77);
  const BlockTensors exact = small.run(compute);
  BlockTensors out(small.block().shape, small.block().tokens, DType::bf16);
  const auto outcome = run_layout(compute, small.block(), {.control = true, .exact = &exact}, out);
  for (int which = 0; which < kBlockTensors; ++which) {
    EXPECT_GT(outcome.differing[which], 0) << kBlockTensorNames[which];
    EXPECT_LT(outcome.differing[which], outcome.compared[which]) << kBlockTensorNames[which];
  }
}

TEST(LayoutRun, RefusalsHaveTheirOwnType) {
  ComputeFlags flags;
  flags.contract = "hf-sm90-v1";
  flags.down = "columns";
  const Compute compute(flags);
  const SmallBlock small;
  BlockTensors out(small.block().shape, small.block().tokens, DType::bf16);
  EXPECT_THROW(run_layout(compute, small.block(), {.layout = {2, 1, false}}, out), LayoutRefused);
  EXPECT_THROW(run_layout(compute, small.block(), {.layout = {4096, 1, false}}, out), LayoutRefused);
}

TEST(LayoutRun, InferenceAloneMakesTheOutput) {
  const Compute compute = compute_with();
  const SmallBlock small;
  const BlockTensors exact = small.run(compute);
  BlockTensors out(small.block().shape, small.block().tokens, DType::bf16, false);
  run_layout(compute, small.block(), {.layout = {2, 1, true}, .training = false}, out);
  EXPECT_EQ(count_differing(std::as_const(out).view(kOutput), exact.view(kOutput)), 0);
}

}  // namespace
}  // namespace samebits::tools
