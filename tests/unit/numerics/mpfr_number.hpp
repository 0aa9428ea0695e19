// A multiple-precision number, and its one correct rounding to f32 or bf16, subnormals and overflow included.
#pragma once

#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "numerics/bf16.hpp"

namespace samebits::test {

class MpfrNumber {
 public:
  explicit MpfrNumber(mpfr_prec_t precision) { mpfr_init2(value_, precision); }
  MpfrNumber(mpfr_prec_t precision, double x) : MpfrNumber(precision) { mpfr_set_d(value_, x, MPFR_RNDN); }
  MpfrNumber(const MpfrNumber&) = delete;
  MpfrNumber& operator=(const MpfrNumber&) = delete;
  ~MpfrNumber() { mpfr_clear(value_); }
  mpfr_ptr get() { return value_; }

  float rounded_f32() { return rounded(24); }
  numerics::Bf16 rounded_bf16() { return static_cast<numerics::Bf16>(numerics::bits(rounded(8)) >> 16); }

 private:
  // To `significant` bits, fewer below 2^-126: a whole number of units in the last place, ties to even.
  float rounded(int significant) {
    if (mpfr_nan_p(value_) != 0) return std::numeric_limits<float>::quiet_NaN();
    const float sign = mpfr_signbit(value_) != 0 ? -1.0f : 1.0f;
    if (mpfr_inf_p(value_) != 0) return sign * std::numeric_limits<float>::infinity();
    if (mpfr_zero_p(value_) != 0) return sign * 0.0f;
    const mpfr_exp_t exponent =
        std::max<mpfr_exp_t>(mpfr_get_exp(value_) - 1, -126);  // |value| < 2^(exponent + 1)
    const mpfr_exp_t unit = exponent - (significant - 1);
    MpfrNumber units(mpfr_get_prec(value_));
    mpfr_mul_2si(units.get(), value_, -unit, MPFR_RNDN);  // exact
    const double whole = static_cast<double>(mpfr_get_si(units.get(), MPFR_RNDN));
    if (std::fabs(std::ldexp(whole, static_cast<int>(unit))) >= 0x1p128)
      return sign * std::numeric_limits<float>::infinity();
    return std::copysign(static_cast<float>(std::ldexp(whole, static_cast<int>(unit))), sign);
  }

  mpfr_t value_;
};

}  // namespace samebits::test
