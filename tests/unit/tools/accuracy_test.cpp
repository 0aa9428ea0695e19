// The float64 block against one written as the formulas stand.
#include "verify/accuracy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "numerics/bf16.hpp"
#include "small_block.hpp"

namespace samebits::tools {
namespace {

double at(const ConstView& view, std::int64_t row, std::int64_t col) {
  return numerics::widen(static_cast<const numerics::Bf16*>(view.data)[row * view.row_stride + col]);
}

struct Expected {
  std::vector<double> y, dx, d_gate, d_up, d_down;
};

Expected plain_block(const BlockCase& block) {
  const auto [H, I] = block.shape;
  const std::int64_t M = block.tokens;
  Expected out{std::vector<double>(M * H), std::vector<double>(M * H), std::vector<double>(I * H),
               std::vector<double>(I * H), std::vector<double>(H * I)};
  for (std::int64_t m = 0; m < M; ++m) {
    for (std::int64_t i = 0; i < I; ++i) {
      double g = 0, u = 0, da = 0;
      for (std::int64_t h = 0; h < H; ++h) {
        g += at(block.x, m, h) * at(block.gate, i, h);
        u += at(block.x, m, h) * at(block.up, i, h);
        da += at(block.dy, m, h) * at(block.down, h, i);
      }
      const double s = 1 / (1 + std::exp(-g)), a = g * s * u;
      const double du = da * g * s, dg = da * u * (s + g * s * (1 - s));
      for (std::int64_t h = 0; h < H; ++h) {
        out.y[m * H + h] += a * at(block.down, h, i);
        out.dx[m * H + h] += dg * at(block.gate, i, h) + du * at(block.up, i, h);
        out.d_gate[i * H + h] += dg * at(block.x, m, h);
        out.d_up[i * H + h] += du * at(block.x, m, h);
        out.d_down[h * I + i] += a * at(block.dy, m, h);
      }
    }
  }
  return out;
}

ErrorNorms norms_of(const ConstView& tensor, const std::vector<double>& expected) {
  double squares = 0, all = 0, most = 0, sum = 0;
  for (std::int64_t row = 0; row < tensor.rows; ++row) {
    for (std::int64_t col = 0; col < tensor.cols; ++col) {
      const double reference = expected[row * tensor.cols + col],
                   error = std::abs(at(tensor, row, col) - reference);
      squares += error * error;
      all += reference * reference;
      most = std::max(most, error);
      sum += error;
    }
  }
  return {std::sqrt(squares / all), most, sum / static_cast<double>(expected.size())};
}

TEST(Accuracy, EqualsThePlainFloat64Block) {
  const SmallBlock small({40, 152},
                         19);  // I is no multiple of the rows taken at once, tokens none of the lanes
  const BlockTensors tensors = small.run(compute_with());
  const Expected expected = plain_block(small.block());
  const Accuracy accuracy = measure_accuracy(small.block(), tensors, 2, [](double) {});
  const std::pair<BlockTensor, const std::vector<double>*> all[] = {{kTrainingOutput, &expected.y},
                                                                    {kHiddenGradient, &expected.dx},
                                                                    {kGateGradient, &expected.d_gate},
                                                                    {kUpGradient, &expected.d_up},
                                                                    {kDownGradient, &expected.d_down}};
  for (int i = 0; i < kAccuracyTensors; ++i) {
    SCOPED_TRACE(kAccuracyNames[i]);
    const ErrorNorms norms = norms_of(std::as_const(tensors).view(all[i].first), *all[i].second);
    EXPECT_NEAR(accuracy[i].rel_l2, norms.rel_l2, 1e-9);
    EXPECT_NEAR(accuracy[i].max_abs, norms.max_abs, 1e-9);
    EXPECT_NEAR(accuracy[i].mean_abs, norms.mean_abs, 1e-9);
    EXPECT_GT(norms.rel_l2, 1e-4);  // bf16 results: an error of zero would mean that nothing was compared
  }
}

TEST(Accuracy, OfNoTokensIsZero) {
  const SmallBlock small({40, 152}, 0);
  const BlockTensors tensors = small.run(compute_with());
  const Accuracy accuracy = measure_accuracy(small.block(), tensors, 2, [](double) {});
  for (const ErrorNorms& norms : accuracy) EXPECT_EQ(norms.max_abs, 0);
}

}  // namespace
}  // namespace samebits::tools
