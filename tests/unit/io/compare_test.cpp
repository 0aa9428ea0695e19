#include "samebits/compare.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "unit/io/expect_error.hpp"

namespace samebits {
namespace {

using Bits16 = std::vector<std::uint16_t>;

ConstView view_of(const Bits16& bits, std::int64_t rows, std::int64_t cols, DType dtype = DType::bf16) {
  return host_view(static_cast<const void*>(bits.data()), rows, cols, dtype);
}

TEST(Compare, CountsAndNamesTheFirst) {
  const Bits16 a = {1, 2, 3, 4, 5, 6}, b = {1, 2, 3, 4, 9, 7};
  const TensorDifference d = compare(view_of(a, 2, 3), view_of(b, 2, 3));
  EXPECT_EQ(d.elements, 6);
  EXPECT_EQ(d.differing, 2);
  EXPECT_EQ(d.row, 1);
  EXPECT_EQ(d.col, 1);
  EXPECT_EQ(d.a_bits, 5u);
  EXPECT_EQ(d.b_bits, 9u);
  EXPECT_EQ(d.max_ulps, 4u);
  EXPECT_EQ(describe(d),
            "2 of 6 elements differ; first at [1, 1]: 0x0005 against 0x0009; largest distance 4 ulps");
  EXPECT_TRUE(compare(view_of(a, 2, 3), view_of(a, 2, 3)).equal());
  EXPECT_EQ(describe(compare(view_of(a, 2, 3), view_of(a, 2, 3))), "0 of 6 elements differ");
}

TEST(Compare, DistanceCrossesZeroAndReachesInfinity) {
  const auto ulps = [](std::uint16_t a, std::uint16_t b, DType dtype = DType::bf16) {
    return compare(view_of({a}, 1, 1, dtype), view_of({b}, 1, 1, dtype));
  };
  EXPECT_EQ(ulps(0x8001, 0x0001).max_ulps, 2u);
  EXPECT_EQ(ulps(0x7F7F, 0x7F80).max_ulps, 1u);
  EXPECT_EQ(ulps(0xFF80, 0x7F80).max_ulps, 2u * 0x7F80u);
  EXPECT_EQ(ulps(0x7BFF, 0x7C00, DType::f16).max_ulps, 1u);
  const TensorDifference zeros = ulps(0x8000, 0x0000);
  EXPECT_EQ(zeros.differing, 1) << "signed zeros are other bits";
  EXPECT_EQ(zeros.max_ulps, 0u);
  EXPECT_NE(describe(zeros).find("zeros of opposite sign"), std::string::npos);
}

TEST(Compare, F32DistancesNeedMoreThanThirtyTwoBits) {
  const std::uint32_t a = 0xFF800000u, b = 0x7F800000u;
  const TensorDifference d = compare(host_view(static_cast<const void*>(&a), 1, 1, DType::f32),
                                     host_view(static_cast<const void*>(&b), 1, 1, DType::f32));
  EXPECT_EQ(d.max_ulps, 2u * std::uint64_t{0x7F800000u});
  EXPECT_NE(describe(d).find("0xff800000 against 0x7f800000"), std::string::npos);
}

TEST(Compare, NaNs) {
  const Bits16 a = {0x7FC0, 0x7FC0, 0x7FC0, 0x0001}, b = {0x7FC0, 0xFFFF, 0x0001, 0x7F81};
  TensorDifference d = compare(view_of(a, 1, 4), view_of(b, 1, 4));
  EXPECT_EQ(d.differing, 3);
  EXPECT_EQ(d.nan_against_nan, 1);
  EXPECT_EQ(d.nan_against_number, 2);
  EXPECT_EQ(d.max_ulps, 0u);
  EXPECT_EQ(describe(d),
            "3 of 4 elements differ; first at [0, 1]: 0x7fc0 against 0xffff; 2 NaN against a number, "
            "1 NaN against another NaN");
  d = compare(view_of(a, 1, 4), view_of(b, 1, 4), {.any_nan_equal = true});
  EXPECT_EQ(d.differing, 2);
  EXPECT_EQ(d.col, 2);
}

TEST(Compare, StridesAndOddAddresses) {
  const Bits16 a = {1, 2, 3, 4, 5, 6};
  const Bits16 transposed = {1, 4, 2, 5, 3, 6};
  ConstView view = view_of(transposed, 2, 3);
  view.row_stride = 1;
  view.col_stride = 2;
  EXPECT_TRUE(compare(view_of(a, 2, 3), view).equal());
  std::vector<unsigned char> odd(13);
  std::memcpy(odd.data() + 1, a.data(), 12);
  EXPECT_TRUE(compare(view_of(a, 2, 3), host_view(static_cast<const void*>(odd.data() + 1), 2, 3)).equal());
  odd[11] ^= 1;
  const TensorDifference d =
      compare(view_of(a, 2, 3), host_view(static_cast<const void*>(odd.data() + 1), 2, 3));
  EXPECT_EQ(d.differing, 1);
  EXPECT_EQ(d.row, 1);
  EXPECT_EQ(d.col, 2);
}

TEST(Compare, RefusesOtherShapesAndDtypes) {
  const Bits16 a(8);
  test::expect_error(ErrorCode::invalid_argument, {"bf16 [2, 3]", "bf16 [3, 2]"},
                     [&] { compare(view_of(a, 2, 3), view_of(a, 3, 2)); });
  test::expect_error(ErrorCode::invalid_argument, {"bf16 [2, 2]", "f16 [2, 2]"},
                     [&] { compare(view_of(a, 2, 2), view_of(a, 2, 2, DType::f16)); });
  EXPECT_TRUE(compare(view_of({}, 0, 3), view_of({}, 0, 3)).equal());
}

}  // namespace
}  // namespace samebits
