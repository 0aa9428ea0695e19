// sigma on all of its 65,536 inputs: against multiple precision, and against the recording of PyTorch's
// kernels.
#include "numerics/sigma.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "support/equality.hpp"
#include "unit/numerics/mpfr_number.hpp"

namespace samebits::test {
namespace {

using numerics::Bf16;
using numerics::widen;

// 1/(1+e^-g) to the precision of `out`. 300 bits are enough: near zero sigma is 1/2 + g/4 - g^3/48 + ...,
// where the first two terms may be a tie of f32 (|g| >= 2^-24 then) and the third, at 2^-78, decides.
void set_sigma(MpfrNumber& out, Bf16 g) {
  mpfr_set_d(out.get(), -static_cast<double>(widen(g)), MPFR_RNDN);
  mpfr_exp(out.get(), out.get(), MPFR_RNDN);
  mpfr_add_ui(out.get(), out.get(), 1, MPFR_RNDN);
  mpfr_ui_div(out.get(), 1, out.get(), MPFR_RNDN);
}

bool is_nan(Bf16 g) { return (g & 0x7FFF) > 0x7F80; }

// Catches an exp in float, one in double alone (78 inputs near zero are ties of f32 decided below its last
// place), flushed subnormals (g near -88 to -103) and a cut-off set too early.
TEST(Sigma, ExactIsCorrectlyRounded) {
  std::vector<float> ours(0x10000), expected(0x10000);
  MpfrNumber sigma(300);
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const Bf16 g = static_cast<Bf16>(pattern);
    ours[pattern] = numerics::sigma(Sigma::exact, g);
    if (is_nan(g)) {
      expected[pattern] = numerics::from_bits(numerics::kNanF32);
      continue;
    }
    set_sigma(sigma, g);
    expected[pattern] = sigma.rounded_f32();
  }
  expect_same_bits("sigma=exact against MPFR, a row a sign and exponent", ours, expected, 512, 128);
}

// The control: exp in float gives other bits.
TEST(Sigma, AFloatExpWouldShow) {
  int differing = 0;
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const Bf16 g = static_cast<Bf16>(pattern);
    if (is_nan(g)) continue;
    const float by_float = 1.0f / (1.0f + std::exp(-widen(g)));
    differing += same_element(by_float, numerics::sigma(Sigma::exact, g)) ? 0 : 1;
  }
  EXPECT_GT(differing, 1000);
}

TEST(Sigma, EndsOfTheRange) {
  EXPECT_EQ(pattern(numerics::sigma_exact(0xFF80)), 0u) << "-inf";
  EXPECT_EQ(pattern(numerics::sigma_exact(0x7F80)), 0x3F800000u) << "inf";
  EXPECT_EQ(pattern(numerics::sigma_exact(0x0000)), 0x3F000000u);
  EXPECT_EQ(pattern(numerics::sigma_exact(0x8000)), 0x3F000000u);
  EXPECT_EQ(pattern(numerics::sigma_exact(0xFFC1)), numerics::kNanF32);
  EXPECT_EQ(pattern(numerics::sigma_cuda(0xFF80)), 0u);
  EXPECT_EQ(pattern(numerics::sigma_cuda(0xFFC1)), numerics::kNanF32);
}

// With sigma=exact, bf16(g*sigma(g)) is the correctly rounded SiLU for every finite bf16 g but the odd
// patterns below 2^-125: there g/2 is a tie of bf16 that g^2/4 decides, far below the last place of f32. What
// the contract says is the f32 product.
bool silu_is_near_a_tie(Bf16 g) { return (g & 0x7FFF) < 0x0100 && (g & 1) != 0; }

TEST(Sigma, RoundedSiluIsCorrectlyRounded) {
  std::vector<Bf16> ours(0x10000), expected(0x10000);
  MpfrNumber silu(600);
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const Bf16 g = static_cast<Bf16>(pattern);
    if ((g & 0x7F80) == 0x7F80 || silu_is_near_a_tie(g)) continue;
    ours[pattern] = numerics::round_bf16(widen(g) * numerics::sigma(Sigma::exact, g));
    set_sigma(silu, g);
    mpfr_mul_d(silu.get(), silu.get(), static_cast<double>(widen(g)), MPFR_RNDN);
    expected[pattern] = silu.rounded_bf16();
  }
  expect_same_bits("bf16(g*sigma(g)) against MPFR, a row a sign and exponent", ours, expected, 512, 128);
}

TEST(Sigma, SiluNearATieIsTheF32Product) {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const Bf16 g = static_cast<Bf16>(pattern);
    if (!silu_is_near_a_tie(g)) continue;
    const std::uint32_t even = ((pattern & 0x7FFF) + 1) / 4 * 2;  // g/2 in units of 2^-133, ties to even
    ASSERT_EQ(numerics::round_bf16(widen(g) * numerics::sigma(Sigma::exact, g)), (pattern & 0x8000) | even);
  }
}

std::vector<float> read_recording() {
  std::ifstream file(std::string(SAMEBITS_FIXTURES) + "/sigmoid_torch_cuda.f32", std::ios::binary);
  std::vector<float> recorded(0x10000);
  file.read(reinterpret_cast<char*>(recorded.data()), 4 * 0x10000);
  EXPECT_EQ(file.gcount(), 4 * 0x10000);
  return recorded;
}

TEST(Sigma, CudaEqualsTheRecording) {
  std::vector<float> ours(0x10000);
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    ours[pattern] = numerics::sigma(Sigma::cuda, static_cast<Bf16>(pattern));
  }
  expect_same_bits("sigma=cuda against the H200, a row a sign and exponent", ours, read_recording(), 512, 128,
                   NaNs::any);
}

// What docs/numerics.md says of the two: 2,554 inputs differ. The control of both tests above.
TEST(Sigma, ExactAndCudaDiffer) {
  const std::vector<float> recorded = read_recording();
  int differing = 0;
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const float exact = numerics::sigma(Sigma::exact, static_cast<Bf16>(pattern));
    differing += same_element(exact, recorded[pattern], NaNs::any) ? 0 : 1;
  }
  EXPECT_EQ(differing, 2554);
}

}  // namespace
}  // namespace samebits::test
