// Transposed copies, so that a contraction over the columns of a matrix reads memory in order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "reference/parallel.hpp"
#include "reference/reference.hpp"

namespace samebits::reference {

// [rows, cols], row-major and packed, as [cols, rows].
inline std::vector<Bf16> transposed(const Bf16* matrix, std::int64_t rows, std::int64_t cols, int threads) {
  constexpr std::int64_t kTile = 32;  // a cache line of bf16
  std::vector<Bf16> out(rows * cols);
  parallel_for(threads, (cols + kTile - 1) / kTile, [&](std::int64_t tile) {
    const std::int64_t first = tile * kTile, last = std::min(first + kTile, cols);
    for (std::int64_t top = 0; top < rows; top += kTile) {
      for (std::int64_t c = first; c < last; ++c) {
        for (std::int64_t r = top; r < std::min(top + kTile, rows); ++r)
          out[c * rows + r] = matrix[r * cols + c];
      }
    }
  });
  return out;
}

}  // namespace samebits::reference
