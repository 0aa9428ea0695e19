// The tile kernels keep sigma for a range of gates; a gate outside reads the value at the range's end.
#include "engine/cuda/sm90/sigma_range.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "numerics/bf16.hpp"
#include "numerics/sigma.hpp"

namespace samebits::test {
namespace {

using engine::cuda::kGreatestGate;
using engine::cuda::kLeastGate;

TEST(SigmaRange, GatesOutsideHaveTheSigmaOfItsEnds) {
  for (const Sigma kind : {Sigma::exact, Sigma::cuda}) {
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const auto sigma_bits = [&](std::uint32_t magnitude) {
        return numerics::bits(numerics::sigma(kind, static_cast<numerics::Bf16>(sign | magnitude)));
      };
      for (std::uint32_t magnitude = 0; magnitude <= 0x7F80; ++magnitude) {
        const std::uint32_t at = std::min(std::max(magnitude, kLeastGate), kGreatestGate);
        ASSERT_EQ(sigma_bits(magnitude), sigma_bits(at))
            << fmt::format("sigma kind {}, gate {:#06x}", static_cast<int>(kind), sign | magnitude);
      }
    }
  }
}

// The range is no wider than it must be by more than one binade at either end.
TEST(SigmaRange, EndsWhereSigmaIsFlat) {
  const auto exact = [](std::uint32_t gate) {
    return numerics::sigma(Sigma::exact, static_cast<numerics::Bf16>(gate));
  };
  EXPECT_NE(exact(0x8000u | (kLeastGate + 129)), exact(0x8000u | kLeastGate));
  EXPECT_NE(exact(0x8000u | (kGreatestGate - 128)), exact(0x8000u | kGreatestGate));
}

}  // namespace
}  // namespace samebits::test
