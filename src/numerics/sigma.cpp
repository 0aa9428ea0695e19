#include "numerics/sigma.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "numerics/sigma_cuda_table.hpp"

namespace samebits::numerics {
namespace {

// e^x for -150 < x <= 0, to a few ulps of double.
double exp_of_negative(double x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56;
  const double k = std::floor(std::fma(x, kLog2E, 0.5));
  const double r = std::fma(-k, kLn2Low, std::fma(-k, kLn2High, x));  // |r| <= ln2 / 2
  constexpr double kInverseFactorials[] = {1.0 / 6227020800.0,
                                           1.0 / 479001600.0,
                                           1.0 / 39916800.0,
                                           1.0 / 3628800.0,
                                           1.0 / 362880.0,
                                           1.0 / 40320.0,
                                           1.0 / 5040.0,
                                           1.0 / 720.0,
                                           1.0 / 120.0,
                                           1.0 / 24.0,
                                           1.0 / 6.0,
                                           0.5,
                                           1.0,
                                           1.0};
  double sum = 0.0;
  for (const double coefficient : kInverseFactorials) sum = std::fma(sum, r, coefficient);
  return sum * std::bit_cast<double>(static_cast<std::uint64_t>(1023 + static_cast<int>(k)) << 52);
}

// sigma(x) = 1/2 + x/4 - x^3/48 + ... for |x| < 2^-10. Where 1/2 + x/4 is a tie of f32 the cubic term
// decides, though it may lie below the last place of a double: the first two terms are exact, and what it
// does not move is moved by one place.
double sigma_near_zero(double x) {
  const double line = 0.5 + 0.25 * x;
  const double sum = line - x * x * x / 48.0;
  return sum != line ? sum : std::nextafter(line, 0.5);
}

}  // namespace

float sigma_exact(Bf16 g) {
  const std::uint32_t u = std::uint32_t{g} << 16;
  if (is_nan_bits(u)) return from_bits(kNanF32);
  const double x = static_cast<double>(widen(g));
  if (x < -110.0) return 0.0f;  // below half of the smallest subnormal
  if (x > 110.0) return 1.0f;
  if (std::abs(x) < 0x1p-10) return static_cast<float>(sigma_near_zero(x));
  const double e = exp_of_negative(x < 0 ? x : -x);
  return static_cast<float>(x < 0 ? e / (1.0 + e) : 1.0 / (1.0 + e));
}

float sigma_cuda(Bf16 g) {
  const float exact = sigma_exact(g);
  if (widen(g) < -88.7f) return 0.0f;
  const auto* const end = std::end(kSigmaCudaTable);
  const auto* const found =
      std::lower_bound(std::begin(kSigmaCudaTable), end, g,
                       [](const SigmaCudaEntry& entry, Bf16 key) { return entry.g < key; });
  if (found == end || found->g != g) return exact;
  return from_bits(bits(exact) + static_cast<std::uint32_t>(static_cast<std::int32_t>(found->ulps)));
}

}  // namespace samebits::numerics
