// Equality of bits, never of values: raw bytes are compared, and a difference is reported by its first
// coordinate, both values in hex, and how many elements differ.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

namespace samebits::test {

inline std::uint16_t pattern(std::uint16_t x) { return x; }
inline std::uint32_t pattern(std::uint32_t x) { return x; }
inline std::uint32_t pattern(float x) { return std::bit_cast<std::uint32_t>(x); }

inline bool nan_pattern(std::uint16_t x) { return (x & 0x7FFFu) > 0x7F80u; }
inline bool nan_pattern(std::uint32_t x) { return (x & 0x7FFFFFFFu) > 0x7F800000u; }

// `any`: against recordings of hardware and of other software, any NaN equals any NaN.
enum class NaNs { exact, any };

template <class T>
bool same_element(T a, T b, NaNs nans = NaNs::exact) {
  if (pattern(a) == pattern(b)) return true;
  return nans == NaNs::any && nan_pattern(pattern(a)) && nan_pattern(pattern(b));
}

// For controls: a check has power when what it checks against a mutant is not zero.
template <class T>
std::int64_t count_differing(const T* a, const T* b, std::int64_t count, NaNs nans = NaNs::exact) {
  std::int64_t differing = 0;
  for (std::int64_t i = 0; i < count; ++i) differing += same_element(a[i], b[i], nans) ? 0 : 1;
  return differing;
}

// a and b: [rows, cols], row-major, packed.
template <class T>
testing::AssertionResult same_bits(std::string_view what, const T* a, const T* b, std::int64_t rows,
                                   std::int64_t cols, NaNs nans = NaNs::exact) {
  std::int64_t first = -1;
  for (std::int64_t i = 0; i < rows * cols && first < 0; ++i) {
    if (!same_element(a[i], b[i], nans)) first = i;
  }
  if (first < 0) return testing::AssertionSuccess();
  constexpr int digits = 2 * sizeof(T);
  return testing::AssertionFailure() << fmt::format(
             "{}: {} of {} elements differ, first [{}, {}]: 0x{:0{}x} against 0x{:0{}x}", what,
             count_differing(a, b, rows * cols, nans), rows * cols, first / cols, first % cols,
             pattern(a[first]), digits, pattern(b[first]), digits);
}

template <class T>
void expect_same_bits(std::string_view what, const T* a, const T* b, std::int64_t rows, std::int64_t cols,
                      NaNs nans = NaNs::exact) {
  EXPECT_TRUE(same_bits(what, a, b, rows, cols, nans));
}

template <class T>
void expect_same_bits(std::string_view what, const std::vector<T>& a, const std::vector<T>& b,
                      std::int64_t rows, std::int64_t cols, NaNs nans = NaNs::exact) {
  ASSERT_EQ(static_cast<std::int64_t>(a.size()), rows * cols) << what;
  ASSERT_EQ(static_cast<std::int64_t>(b.size()), rows * cols) << what;
  EXPECT_TRUE(same_bits(what, a.data(), b.data(), rows, cols, nans));
}

}  // namespace samebits::test
