// Seeded tensors: element i is word i mod 4 of the Philox block with counter i div 4 (docs/numerics.md
// section 6).
#include "samebits/seeded.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "io/elements.hpp"
#include "io/philox.hpp"
#include "io/seeded_element.hpp"
#include "samebits/error.hpp"

namespace samebits {
namespace {

constexpr std::uint64_t kBlock = 4 * io::kPhiloxLanes;  // elements made at once

class Stream {
 public:
  Stream(std::uint64_t seed, SeededTensor tensor)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(tensor)},
        seed_high_(static_cast<std::uint32_t>(seed >> 32)),
        largest_exponent_(tensor == SeededTensor::x || tensor == SeededTensor::dy ? 127u : 121u) {}

  // Elements [index, index + count).
  void fill(std::uint16_t* out, std::uint64_t index, std::uint64_t count) const {
    std::uint16_t block[kBlock];
    while (count > 0) {
      const std::uint64_t skipped = index % 4;  // a slice may begin inside a counter
      const std::uint64_t made = std::min(kBlock - skipped, count);
      if (skipped == 0 && made == kBlock) {
        make_block(index / 4, out);
      } else {
        make_block(index / 4, block);
        std::copy_n(block + skipped, made, out);
      }
      out += made;
      index += made;
      count -= made;
    }
  }

 private:
  void make_block(std::uint64_t counter, std::uint16_t* out) const {
    io::PhiloxWords words;
    io::philox4x32_10(counter, seed_high_, key_, words);
    std::uint16_t element[4][io::kPhiloxLanes];  // apart from the interleaving, so that both loops vectorise
    for (int j = 0; j < 4; ++j) {
      for (int lane = 0; lane < io::kPhiloxLanes; ++lane) {
        element[j][lane] = io::seeded_element(words.word[j][lane], largest_exponent_);
      }
    }
    for (int lane = 0; lane < io::kPhiloxLanes; ++lane) {
      for (int j = 0; j < 4; ++j) out[4 * lane + j] = element[j][lane];
    }
  }

  io::PhiloxKey key_;
  std::uint32_t seed_high_;
  std::uint32_t largest_exponent_;
};

void check(const View& view, const SeededSlice& slice) {
  io::check_host_view(view, "the seeded view");
  const auto refuse = [](const std::string& problem) { throw Error(ErrorCode::invalid_argument, problem); };
  if (view.dtype != DType::bf16)
    refuse(fmt::format("seeded tensors are bf16, the view is {}", name_of(view.dtype)));
  if (reinterpret_cast<std::uintptr_t>(view.data) % 2 != 0)
    refuse("the seeded view begins at an odd address");
  if (slice.tensor > SeededTensor::dy) {
    refuse(fmt::format("there is no seeded tensor {}; ids are 0 to 4",
                       static_cast<std::uint32_t>(slice.tensor)));
  }
  if (slice.first_row < 0 || slice.first_col < 0 || slice.first_col > slice.row_length ||
      view.cols > slice.row_length - slice.first_col) {
    refuse(fmt::format(
        "a slice of {} columns from row {}, column {} does not lie in rows of {}; set row_length to the "
        "columns of the whole tensor",
        view.cols, slice.first_row, slice.first_col, slice.row_length));
  }
  std::int64_t end = 0;
  if (__builtin_add_overflow(slice.first_row, view.rows, &end) ||
      __builtin_mul_overflow(end, slice.row_length, &end)) {
    refuse(fmt::format("row {} of rows of {} lies beyond what 64 bits can count", slice.first_row,
                       slice.row_length));
  }
}

}  // namespace

void fill_seeded(const View& view, const SeededSlice& slice) {
  check(view, slice);
  if (view.empty()) return;
  const Stream stream(slice.seed, slice.tensor);
  auto* const data = static_cast<std::uint16_t*>(view.data);
  const auto index_of = [&](std::int64_t row) {
    return static_cast<std::uint64_t>((slice.first_row + row) * slice.row_length + slice.first_col);
  };
  if (view.contiguous() && view.cols == slice.row_length) {  // whole rows follow one another in both
    stream.fill(data, index_of(0), static_cast<std::uint64_t>(view.elements()));
    return;
  }
  const auto cols = static_cast<std::uint64_t>(view.cols);
  std::vector<std::uint16_t> gathered(view.rows_packed() ? 0 : cols);
  for (std::int64_t row = 0; row < view.rows; ++row) {
    std::uint16_t* const to = data + row * view.row_stride;
    if (view.rows_packed()) {
      stream.fill(to, index_of(row), cols);
      continue;
    }
    stream.fill(gathered.data(), index_of(row), cols);
    for (std::int64_t col = 0; col < view.cols; ++col)
      to[col * view.col_stride] = gathered[static_cast<std::size_t>(col)];
  }
}

}  // namespace samebits
