// How far each contract is from the exact result: the only test with a tolerance, and it says nothing about
// bits.
#include <gtest/gtest.h>

#include <cstdio>
#include <ostream>
#include <string>

#include "accuracy/double_block.hpp"
#include "reference/reference.hpp"
#include "unit/reference/seeded_inputs.hpp"

namespace samebits::test {
namespace {

struct Bounds {
  const char* contract;
  double low, high;  // of the relative L2 error of y, dx and the gradients, in percent
};

void PrintTo(const Bounds& bounds, std::ostream* out) { *out << bounds.contract; }

// bf16 nodes round at every level of the tree; f32 nodes leave the roundings of the named tensors. The low
// ends catch a contract that is more accurate than it can be, which is another contract.
constexpr Bounds kBounds[] = {{"bf16-tree-v1", 0.55, 1.0},
                              {"f32-tree-v1", 0.2, 0.4},
                              {"sm90-v1", 0.2, 0.4},
                              {"hf-sm90-v1", 0.2, 0.5},
                              {"gfx942-v1", 0.2, 0.4}};

class Accuracy : public testing::TestWithParam<Bounds> {
 protected:
  static constexpr Shape kShape{512, 1536};
  static constexpr std::int64_t kTokens = 8;

  static void SetUpTestSuite() {
    block_ = new SeededInputs(kShape, kTokens, 1);
    exact_ = new DoubleBlock(evaluate_in_double(block_->inputs()));
  }
  static void TearDownTestSuite() {
    delete exact_;
    delete block_;
  }

  static inline SeededInputs* block_ = nullptr;
  static inline DoubleBlock* exact_ = nullptr;
};

TEST_P(Accuracy, RelativeErrorIsWithinItsBounds) {
  const Bounds& bounds = GetParam();
  const Contract contract = parse_contract(bounds.contract);
  const auto trees = reference::trees_of(contract, kShape, kTokens);
  const reference::Outputs out = reference::evaluate(contract, trees, block_->inputs());
  const auto expect = [&](const char* what, double percent) {
    std::printf("  %-14s %-7s %.3f%%\n", bounds.contract, what, percent);
    EXPECT_GE(percent, bounds.low) << what;
    EXPECT_LE(percent, bounds.high) << what;
  };
  expect("y", 100.0 * relative_l2(out.y, exact_->y));
  expect("dx", 100.0 * relative_l2(out.dx, exact_->dx));
  expect("d_gate", 100.0 * relative_l2(out.d_gate, exact_->d_gate));
  expect("d_up", 100.0 * relative_l2(out.d_up, exact_->d_up));
  expect("d_down", 100.0 * relative_l2(out.d_down, exact_->d_down));
}

std::string test_name(const testing::TestParamInfo<Bounds>& bounds) {
  std::string name = bounds.param.contract;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Contracts, Accuracy, testing::ValuesIn(kBounds), test_name);

}  // namespace
}  // namespace samebits::test
