// The block as a whole: its parts agree with each other, whoever computes them. What the bits are is the
// golden test's.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reference/reference.hpp"
#include "support/equality.hpp"
#include "unit/reference/seeded_inputs.hpp"

namespace samebits::test {
namespace {

using reference::Bf16;
using reference::Outputs;
using reference::Samples;
using reference::Trees;

constexpr Shape kShape{48, 80};
constexpr std::int64_t kTokens = 21;
constexpr const char* kContracts[] = {"bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1", "gfx942-v1"};

Outputs evaluate(const Contract& contract, const SeededInputs& block, bool backward = true, int threads = 1) {
  const Trees trees = reference::trees_of(contract, block.shape, block.tokens);
  return reference::evaluate(contract, trees, block.inputs(), backward, threads);
}

TEST(Evaluate, ForwardAloneIsTheForward) {
  const SeededInputs block(kShape, kTokens);
  for (const char* name : kContracts) {
    const Outputs both = evaluate(parse_contract(name), block),
                  forward = evaluate(parse_contract(name), block, false);
    expect_same_bits("y", forward.y, both.y, kTokens, kShape.hidden);
    expect_same_bits("A", forward.act, both.act, kTokens, kShape.intermediate);
    EXPECT_TRUE(forward.dx.empty() && forward.d_gate.empty() && forward.d_act.empty() &&
                forward.d_down_f32.empty());
  }
}

TEST(Evaluate, ThreadsChangeNothing) {
  const SeededInputs block(kShape, kTokens);
  for (const char* name : kContracts) {
    const Outputs one = evaluate(parse_contract(name), block);
    for (const int threads : {2, 3, 200}) {
      const Outputs many = evaluate(parse_contract(name), block, true, threads);
      expect_same_bits("y", many.y, one.y, kTokens, kShape.hidden);
      expect_same_bits("dx", many.dx, one.dx, kTokens, kShape.hidden);
      expect_same_bits("d_gate", many.d_gate_f32, one.d_gate_f32, kShape.intermediate, kShape.hidden);
      expect_same_bits("d_up", many.d_up_f32, one.d_up_f32, kShape.intermediate, kShape.hidden);
      expect_same_bits("d_down", many.d_down_f32, one.d_down_f32, kShape.hidden, kShape.intermediate);
    }
  }
}

// A row's bits do not depend on M.
TEST(Evaluate, ARowAloneIsTheRowInTheBatch) {
  const SeededInputs block(kShape, kTokens);
  for (const char* name : kContracts) {
    const Contract contract = parse_contract(name);
    const Outputs batch = evaluate(contract, block);
    for (const std::int64_t token : {std::int64_t{0}, std::int64_t{7}, kTokens - 1}) {
      reference::Inputs row = block.inputs();
      row.tokens = 1;
      row.x += token * kShape.hidden;
      row.dy += token * kShape.hidden;
      const Outputs alone = reference::evaluate(contract, reference::trees_of(contract, kShape, 1), row);
      expect_same_bits("y", alone.y.data(), &batch.y[token * kShape.hidden], 1, kShape.hidden);
      expect_same_bits("dx", alone.dx.data(), &batch.dx[token * kShape.hidden], 1, kShape.hidden);
    }
  }
}

TEST(Evaluate, SamplesAreElementsOfTheWhole) {
  const SeededInputs block(kShape, kTokens);
  const std::vector<std::int64_t> rows = {0, 3, 41, 79, 3};
  const auto R = static_cast<std::int64_t>(rows.size());
  for (const char* name : kContracts) {
    const Contract contract = parse_contract(name);
    Trees trees = reference::trees_of(contract, kShape, kTokens);
    for (const bool moved : {false, true}) {
      trees.intermediate.moved = trees.tokens.moved = moved;
      const Outputs whole = reference::evaluate(contract, trees, block.inputs());
      for (const int threads : {1, 3}) {
        const std::int64_t token = 5;
        const Samples samples =
            reference::evaluate_samples(contract, trees, block.inputs(), token, rows, true, threads);
        expect_same_bits("y", samples.y.data(), &whole.y[token * kShape.hidden], 1, kShape.hidden);
        expect_same_bits("dx", samples.dx.data(), &whole.dx[token * kShape.hidden], 1, kShape.hidden);
        std::vector<Bf16> d_gate, d_up, d_down;
        for (const std::int64_t i : rows) {
          for (std::int64_t h = 0; h < kShape.hidden; ++h) {
            d_gate.push_back(whole.d_gate[i * kShape.hidden + h]);
            d_up.push_back(whole.d_up[i * kShape.hidden + h]);
            d_down.push_back(whole.d_down[h * kShape.intermediate + i]);
          }
        }
        expect_same_bits("d_gate", samples.d_gate, d_gate, R, kShape.hidden);
        expect_same_bits("d_up", samples.d_up, d_up, R, kShape.hidden);
        expect_same_bits("d_down", samples.d_down, d_down, R, kShape.hidden);
      }
    }
    const Samples forward = reference::evaluate_samples(contract, trees, block.inputs(), 0, rows, false, 2);
    EXPECT_EQ(forward.y.size(), 48u);
    EXPECT_TRUE(forward.dx.empty() && forward.d_gate.empty());
  }
}

TEST(Evaluate, NoTokensGiveGradientsOfPlusZero) {
  const SeededInputs block(kShape, 0);
  for (const char* name : kContracts) {
    const Outputs out = evaluate(parse_contract(name), block);
    EXPECT_TRUE(out.y.empty() && out.dx.empty());
    const std::vector<Bf16> zeros(kShape.hidden * kShape.intermediate, 0);
    const std::vector<float> wide_zeros(zeros.size(), 0.0f);
    expect_same_bits("d_gate", out.d_gate, zeros, kShape.intermediate, kShape.hidden);
    expect_same_bits("d_up", out.d_up, zeros, kShape.intermediate, kShape.hidden);
    expect_same_bits("d_down", out.d_down, zeros, kShape.hidden, kShape.intermediate);
    expect_same_bits("d_down f32", out.d_down_f32, wide_zeros, kShape.hidden, kShape.intermediate);
  }
}

// Every stored NaN is the canonical one of its type, whatever went in.
TEST(Evaluate, StoredNaNsAreCanonical) {
  SeededInputs block(kShape, kTokens);
  block.x[3] = 0xFFC7;
  block.x[kShape.hidden + 1] = 0xFF80;
  block.dy[2 * kShape.hidden] = 0x7F81;
  for (const char* name : kContracts) {
    const Outputs out = evaluate(parse_contract(name), block);
    int nans = 0;
    for (const auto* tensor : {&out.y, &out.dx, &out.d_gate, &out.d_up, &out.d_down, &out.gate, &out.up,
                               &out.act, &out.d_act, &out.d_gate_pre, &out.d_up_pre}) {
      for (const Bf16 x : *tensor) {
        if (!nan_pattern(x)) continue;
        ++nans;
        ASSERT_EQ(x, numerics::kNanBf16) << name;
      }
    }
    for (const auto* tensor : {&out.d_gate_f32, &out.d_up_f32, &out.d_down_f32}) {
      for (const float x : *tensor) {
        if (!std::isnan(x)) continue;
        ++nans;
        ASSERT_EQ(pattern(x), numerics::kNanF32) << name;
      }
    }
    EXPECT_GT(nans, 1000) << name;
  }
}

// A bf16 gradient is the f32 one rounded.
TEST(Evaluate, GradientsRoundFromTheirRoots) {
  const SeededInputs block(kShape, kTokens);
  for (const char* name : kContracts) {
    const Outputs out = evaluate(parse_contract(name), block);
    std::vector<Bf16> rounded;
    for (const float x : out.d_down_f32) rounded.push_back(numerics::round_bf16(x));
    expect_same_bits("d_down", out.d_down, rounded, kShape.hidden, kShape.intermediate);
  }
}

}  // namespace
}  // namespace samebits::test
