// Byte counts of one collective.
#pragma once

#include <cstddef>
#include <span>

namespace samebits::transport {

std::size_t total(std::span<const std::size_t> bytes);

// Throws Error(invalid_argument) unless there is one count a rank.
void check_counts(std::span<const std::size_t> bytes, int ranks);

}  // namespace samebits::transport
