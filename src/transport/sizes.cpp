#include "transport/sizes.hpp"

#include <fmt/format.h>

#include <numeric>

#include "samebits/error.hpp"

namespace samebits::transport {

std::size_t total(std::span<const std::size_t> bytes) { return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}); }

void check_counts(std::span<const std::size_t> bytes, int ranks) {
  if (bytes.size() == static_cast<std::size_t>(ranks)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("a collective of {} ranks was given {} byte counts", ranks, bytes.size()));
}

}  // namespace samebits::transport
