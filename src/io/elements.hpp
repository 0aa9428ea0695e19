// The elements of a host view in row-major order, as runs of bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "samebits/view.hpp"

namespace samebits::io {

static_assert(std::endian::native == std::endian::little,
              "files and digests are little-endian, as memory is here");

// Throws Error(invalid_argument) unless the view lies in host memory, has sizes >= 0 that fit 64 bits, and
// data where it has elements. `what` begins the message.
void check_host_view(const ConstView& view, std::string_view what);

inline const unsigned char* row_bytes(const ConstView& view, std::int64_t row) {
  return static_cast<const unsigned char*>(view.data) +
         row * view.row_stride * static_cast<std::int64_t>(size_of(view.dtype));
}

// visit(const void* data, size_t size) in order. Packed memory is visited where it lies; elements that stand
// apart are gathered into a small buffer first. Addresses may be odd.
template <class Visit>
void for_each_run(const ConstView& view, const Visit& visit) {
  if (view.empty()) return;
  const std::size_t size = size_of(view.dtype);
  if (view.contiguous()) {
    visit(view.data, static_cast<std::size_t>(view.elements()) * size);
    return;
  }
  constexpr std::int64_t kGathered = 16384;
  std::vector<unsigned char> gathered;
  for (std::int64_t row = 0; row < view.rows; ++row) {
    const unsigned char* const from = row_bytes(view, row);
    if (view.rows_packed()) {
      visit(from, static_cast<std::size_t>(view.cols) * size);
      continue;
    }
    const std::int64_t step = view.col_stride * static_cast<std::int64_t>(size);
    for (std::int64_t begin = 0; begin < view.cols; begin += kGathered) {
      const std::int64_t count = std::min(kGathered, view.cols - begin);
      gathered.resize(static_cast<std::size_t>(count) * size);
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(gathered.data() + static_cast<std::size_t>(i) * size, from + (begin + i) * step, size);
      }
      visit(gathered.data(), gathered.size());
    }
  }
}

}  // namespace samebits::io
