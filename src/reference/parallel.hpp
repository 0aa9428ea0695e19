// Independent elements shared among threads. No element's value depends on who computes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace samebits::reference {

// body(i) for every i in [0, count). Threads hold neighbouring elements, which share cache lines of strided
// operands.
template <class Body>
void parallel_for(int threads, std::int64_t count, const Body& body) {
  const std::int64_t parts = std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(count, 1));
  const auto run = [&](std::int64_t part) {
    for (std::int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) body(i);
  };
  std::vector<std::jthread> others;  // joined on the way out
  for (std::int64_t part = 1; part < parts; ++part) others.emplace_back(run, part);
  run(0);
}

}  // namespace samebits::reference
