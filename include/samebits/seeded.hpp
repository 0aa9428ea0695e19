// Seeded tensors, the same on every machine and in every language (docs/numerics.md section 6).
#pragma once

#include <cstdint>

#include "samebits/export.hpp"
#include "samebits/view.hpp"

namespace samebits {

enum class SeededTensor : std::uint32_t { x = 0, gate = 1, up = 2, down = 3, dy = 4 };

// Element (row, col) of `view` becomes element (first_row + row) * row_length + first_col + col of the seeded
// tensor, so that a shard is filled without the whole. bf16 host views.
struct SeededSlice {
  std::uint64_t seed = 0;
  SeededTensor tensor = SeededTensor::x;
  std::int64_t row_length = 0;  // columns of the whole tensor
  std::int64_t first_row = 0;
  std::int64_t first_col = 0;
};
SAMEBITS_API void fill_seeded(const View& view, const SeededSlice& slice);

}  // namespace samebits
