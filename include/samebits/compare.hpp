// Whether two tensors hold the same bits, and where and how far they do not.
#pragma once

#include <cstdint>
#include <string>

#include "samebits/export.hpp"
#include "samebits/view.hpp"

namespace samebits {

struct CompareOptions {
  bool any_nan_equal = false;  // for recordings of other software, whose NaNs hold other bits
};

struct TensorDifference {
  std::int64_t elements = 0;   // compared
  std::int64_t differing = 0;  // with other bits
  DType dtype = DType::bf16;

  // The first that differs, row-major, and the bits on both sides. Meaningless when none does.
  std::int64_t row = -1;
  std::int64_t col = -1;
  std::uint32_t a_bits = 0;
  std::uint32_t b_bits = 0;

  // Distance counts the representable values passed on the way from one to the other; +0 and -0 are one
  // value, so they differ at distance 0. Pairs with a NaN have no distance and are counted instead.
  std::uint64_t max_ulps = 0;
  std::int64_t nan_against_number = 0;
  std::int64_t nan_against_nan = 0;  // two NaNs of different bits

  bool equal() const { return differing == 0; }
};

// Host views of one shape and dtype, any strides, any address; Error(invalid_argument) otherwise.
SAMEBITS_API TensorDifference compare(const ConstView& a, const ConstView& b,
                                      const CompareOptions& options = {});

// "3 of 4096 elements differ; first at [0, 5]: 0x3f80 against 0x3f81; largest distance 1 ulp"
SAMEBITS_API std::string describe(const TensorDifference& difference);

}  // namespace samebits
