#include "samebits/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "io/elements.hpp"
#include "samebits/error.hpp"

namespace samebits {
namespace {

// A format by its bits: everything above `infinity`, sign aside, is a NaN.
struct Format {
  std::uint32_t sign;
  std::uint32_t infinity;
};

constexpr Format format_of(DType dtype) {
  return dtype == DType::f32   ? Format{0x80000000u, 0x7F800000u}
         : dtype == DType::f16 ? Format{0x8000u, 0x7C00u}
                               : Format{0x8000u, 0x7F80u};
}

bool is_nan(Format format, std::uint32_t bits) { return (bits & ~format.sign) > format.infinity; }

// Finite values and infinities, numbered in ascending order; both zeros are 0.
std::int64_t place(Format format, std::uint32_t bits) {
  const std::int64_t magnitude = bits & ~format.sign;
  return (bits & format.sign) != 0 ? -magnitude : magnitude;
}

void count_pair(Format format, bool any_nan_equal, std::int64_t row, std::int64_t col, std::uint32_t a,
                std::uint32_t b, TensorDifference& out) {
  const bool nan_a = is_nan(format, a), nan_b = is_nan(format, b);
  if (nan_a && nan_b && any_nan_equal) return;
  if (out.differing == 0) {
    out.row = row;
    out.col = col;
    out.a_bits = a;
    out.b_bits = b;
  }
  ++out.differing;
  if (nan_a && nan_b) {
    ++out.nan_against_nan;
  } else if (nan_a || nan_b) {
    ++out.nan_against_number;
  } else {
    const std::int64_t distance = place(format, a) - place(format, b);
    out.max_ulps = std::max(out.max_ulps, static_cast<std::uint64_t>(distance < 0 ? -distance : distance));
  }
}

template <class Bits>
void compare_row(const ConstView& a, const ConstView& b, std::int64_t row, bool any_nan_equal,
                 TensorDifference& out) {
  const unsigned char* from_a = io::row_bytes(a, row);
  const unsigned char* from_b = io::row_bytes(b, row);
  const auto size = static_cast<std::int64_t>(sizeof(Bits));
  if (a.rows_packed() && b.rows_packed() &&
      std::memcmp(from_a, from_b, static_cast<std::size_t>(a.cols * size)) == 0) {
    return;
  }
  const Format format = format_of(a.dtype);
  for (std::int64_t col = 0; col < a.cols; ++col) {
    Bits bits_a, bits_b;
    std::memcpy(&bits_a, from_a + col * a.col_stride * size, sizeof bits_a);
    std::memcpy(&bits_b, from_b + col * b.col_stride * size, sizeof bits_b);
    if (bits_a != bits_b) count_pair(format, any_nan_equal, row, col, bits_a, bits_b, out);
  }
}

}  // namespace

TensorDifference compare(const ConstView& a, const ConstView& b, const CompareOptions& options) {
  io::check_host_view(a, "the first tensor to compare");
  io::check_host_view(b, "the second tensor to compare");
  if (a.dtype != b.dtype || a.rows != b.rows || a.cols != b.cols) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} [{}, {}] cannot be compared with {} [{}, {}]; dtype and shape must be the same",
                    name_of(a.dtype), a.rows, a.cols, name_of(b.dtype), b.rows, b.cols));
  }
  TensorDifference out;
  out.elements = a.elements();
  out.dtype = a.dtype;
  if (a.empty()) return out;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    if (size_of(a.dtype) == 4) {
      compare_row<std::uint32_t>(a, b, row, options.any_nan_equal, out);
    } else {
      compare_row<std::uint16_t>(a, b, row, options.any_nan_equal, out);
    }
  }
  return out;
}

std::string describe(const TensorDifference& difference) {
  if (difference.equal()) return fmt::format("0 of {} elements differ", difference.elements);
  const int digits = static_cast<int>(2 * size_of(difference.dtype));
  std::string text = fmt::format("{} of {} elements differ; first at [{}, {}]: 0x{:0{}x} against 0x{:0{}x}; ",
                                 difference.differing, difference.elements, difference.row, difference.col,
                                 difference.a_bits, digits, difference.b_bits, digits);
  const std::int64_t nans = difference.nan_against_number + difference.nan_against_nan;
  if (nans < difference.differing) {
    text +=
        fmt::format("largest distance {} ulp{}", difference.max_ulps, difference.max_ulps == 1 ? "" : "s");
    if (difference.max_ulps == 0) text += " (zeros of opposite sign)";
    if (nans > 0) text += "; ";
  }
  if (difference.nan_against_number > 0)
    text += fmt::format("{} NaN against a number", difference.nan_against_number);
  if (difference.nan_against_number > 0 && difference.nan_against_nan > 0) text += ", ";
  if (difference.nan_against_nan > 0)
    text += fmt::format("{} NaN against another NaN", difference.nan_against_nan);
  return text;
}

}  // namespace samebits
