// Kernels are built for the tunings of a list, which the choice of a tuning reads too. A launch looks for its
// own there; where nobody knows it nothing would run, and a result would keep what was in its memory.
#pragma once

#include <cstddef>
#include <iterator>
#include <utility>

namespace samebits::engine::cuda {

// body.template operator()<tuning>() of every tuning of the list. (A body captures [&], or nvcc warns of a
// conversion to a pointer that nobody asks for.)
template <const auto& kBuilt, class Body>
void for_each_built(const Body& body) {
  const auto all = [&]<std::size_t... kAt>(std::index_sequence<kAt...>) {
    (body.template operator()<kBuilt[kAt]>(), ...);
  };
  all(std::make_index_sequence<std::size(kBuilt)>());
}

// The same until one returns true; false when none did.
template <const auto& kBuilt, class Body>
[[nodiscard]] bool any_built(const Body& body) {
  const auto any = [&]<std::size_t... kAt>(std::index_sequence<kAt...>) {
    return (body.template operator()<kBuilt[kAt]>() || ...);
  };
  return any(std::make_index_sequence<std::size(kBuilt)>());
}

}  // namespace samebits::engine::cuda
