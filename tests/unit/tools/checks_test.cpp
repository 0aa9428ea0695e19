// The checks hold on a right block, and each of them can fail.
#include "verify/checks.hpp"

#include <gtest/gtest.h>

#include "small_block.hpp"

namespace samebits::tools {
namespace {

TEST(Checks, HoldOnARightBlock) {
  for (const char* contract : {"bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1", "gfx942-v1"}) {
    SCOPED_TRACE(contract);
    const Compute compute = compute_with(contract);
    const SmallBlock small;
    const BlockTensors exact = small.run(compute);
    const RowCheck rows = check_rows(compute, small.block(), exact);
    EXPECT_EQ(rows.rows, 7);
    EXPECT_EQ(rows.output + rows.d_hidden, 0);
    const auto reference = check_reference(compute, small.block(), exact);
    ASSERT_TRUE(reference);
    EXPECT_EQ(reference->rows.size(), 8u);
    EXPECT_EQ(reference->rows.front(), 0);
    EXPECT_EQ(reference->rows.back(), 207);
    EXPECT_EQ(reference->differing(), 0);
    const auto golden = check_golden(compute);
    EXPECT_EQ(golden.has_digests, std::string(contract) != "gfx942-v1");
    const bool contracts = compute.contract.swiglu == Swiglu::one;  // a contraction would show
    EXPECT_EQ(golden.tensors.size(), (golden.has_digests ? 7u : 0u) + 1u + (contracts ? 1u : 0u));
    EXPECT_EQ(golden.differing(), 0);
  }
}

TEST(Checks, SeeWrongElements) {
  const Compute compute = compute_with();
  const SmallBlock small;
  const BlockTensors right = small.run(compute);
  const auto reference = check_reference(compute, small.block(), right);
  BlockTensors wrong = small.run(compute);
  spoil(wrong, kOutput, reference->token, 5);
  spoil(wrong, kHiddenGradient, reference->token, 63);
  spoil(wrong, kGateGradient, reference->rows[1], 0);
  spoil(wrong, kUpGradient, reference->rows[7], 9);
  spoil(wrong, kDownGradient, 11, reference->rows[3]);
  const auto seen = check_reference(compute, small.block(), wrong);
  for (const auto& tensor : seen->tensors) EXPECT_EQ(tensor.differing, 1) << tensor.name;
  const RowCheck rows = check_rows(compute, small.block(), wrong);
  EXPECT_EQ(rows.output, 2);  // of the inference plan, and of the training plan
  EXPECT_EQ(rows.d_hidden, 1);
}

TEST(Checks, BatchesOfTheFirstRows) {
  const Compute compute = compute_with();
  const SmallBlock small;
  BlockTensors exact = small.run(compute);
  spoil(exact, kOutput, 2, 5);
  spoil(exact, kHiddenGradient, 4, 63);
  const auto checks = check_batches(compute, small.block(), exact, {2, 3, 7});
  ASSERT_EQ(checks.size(), 3u);
  EXPECT_EQ(checks[0].output + checks[0].d_hidden, 0);
  EXPECT_EQ(checks[1].output, 1);
  EXPECT_EQ(checks[1].d_hidden, 0);
  EXPECT_EQ(checks[2].tokens, 7);
  EXPECT_EQ(checks[2].output, 1);
  EXPECT_EQ(checks[2].d_hidden, 1);
}

TEST(Checks, GoldenDigestsBelongToOneContract) {
  EXPECT_TRUE(check_golden(compute_with("sm90-v1,I=max:32,node=bf16")).has_digests);  // lanes=bf16 follows
  EXPECT_FALSE(check_golden(compute_with("sm90-v1,I=max:48")).has_digests);
}

TEST(Checks, NothingToSampleWithoutTokens) {
  const Compute compute = compute_with();
  const SmallBlock small({64, 208}, 0);
  const BlockTensors exact = small.run(compute);
  EXPECT_FALSE(check_reference(compute, small.block(), exact));
  EXPECT_EQ(check_rows(compute, small.block(), exact).rows, 0);
}

}  // namespace
}  // namespace samebits::tools
