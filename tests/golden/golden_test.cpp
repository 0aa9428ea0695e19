// The reference against digests that an evaluation of the contract made which shares no code with this
// project.
#include "reference/golden.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <ostream>
#include <string>
#include <vector>

#include "reference/reference.hpp"
#include "samebits/contract.hpp"
#include "samebits/digest.hpp"
#include "samebits/seeded.hpp"

namespace samebits {

namespace reference {
void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.contract; }
}  // namespace reference

namespace {

using reference::Bf16;

std::vector<Bf16> seeded(SeededTensor tensor, std::int64_t rows, std::int64_t cols) {
  std::vector<Bf16> out(rows * cols);
  SeededSlice slice;
  slice.seed = reference::kGoldenSeed;
  slice.tensor = tensor;
  slice.row_length = cols;
  fill_seeded(host_view(out.data(), rows, cols), slice);
  return out;
}

class GoldenTest : public testing::TestWithParam<reference::Golden> {
 protected:
  static constexpr std::int64_t M = reference::kGoldenTokens, H = reference::kGoldenShape.hidden,
                                I = reference::kGoldenShape.intermediate;

  reference::Outputs evaluate(const Contract& contract, bool moved) const {
    reference::Trees trees = reference::trees_of(contract, reference::kGoldenShape, M);
    trees.intermediate.moved = trees.tokens.moved = moved;
    return reference::evaluate(
        contract, trees,
        {reference::kGoldenShape, M, x_.data(), dy_.data(), gate_.data(), up_.data(), down_.data()});
  }

 private:
  const std::vector<Bf16> x_ = seeded(SeededTensor::x, M, H), dy_ = seeded(SeededTensor::dy, M, H),
                          gate_ = seeded(SeededTensor::gate, I, H), up_ = seeded(SeededTensor::up, I, H),
                          down_ = seeded(SeededTensor::down, H, I);
};

// Catches any change of a bit anywhere in the reference: tree, leaf, rounding, activation, lanes, order of
// tokens.
TEST_P(GoldenTest, ReferenceReproducesEveryDigest) {
  const reference::Golden& golden = GetParam();
  const reference::Outputs out = evaluate(parse_contract(golden.contract), false);
  EXPECT_EQ(digest(host_view(out.y.data(), M, H)), golden.y);
  EXPECT_EQ(digest(host_view(out.dx.data(), M, H)), golden.dx);
  EXPECT_EQ(digest(host_view(out.d_gate.data(), I, H)), golden.d_gate);
  EXPECT_EQ(digest(host_view(out.d_up.data(), I, H)), golden.d_up);
  EXPECT_EQ(digest(host_view(out.d_down.data(), H, I)), golden.d_down);
  EXPECT_EQ(digest(host_view(out.d_gate_f32.data(), I, H, DType::f32)), golden.d_gate_f32);
  EXPECT_EQ(digest(host_view(out.d_down_f32.data(), H, I, DType::f32)), golden.d_down_f32);
}

// The control: with one split of two axes moved by a granule, the f32 gradients are others.
TEST_P(GoldenTest, AMovedSplitShows) {
  const reference::Golden& golden = GetParam();
  const reference::Outputs out = evaluate(parse_contract(golden.contract), true);
  EXPECT_NE(digest(host_view(out.d_gate_f32.data(), I, H, DType::f32)), golden.d_gate_f32);
  EXPECT_NE(digest(host_view(out.d_down_f32.data(), H, I, DType::f32)), golden.d_down_f32);
}

std::string test_name(const testing::TestParamInfo<reference::Golden>& golden) {
  std::string name(golden.param.contract);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Contracts, GoldenTest, testing::ValuesIn(reference::kGolden), test_name);

}  // namespace
}  // namespace samebits
