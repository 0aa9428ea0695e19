#include "shared/parallel.hpp"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "samebits/layout.hpp"

namespace samebits::tools {

void parallel_parts(int threads, std::int64_t count,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body) {
  const int parts = static_cast<int>(std::clamp<std::int64_t>(count, 1, std::max(1, threads)));
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(parts));
  const auto run = [&](int part) {
    try {
      const Interval mine = even_slice(count, parts, part);
      body(mine.begin, mine.end, part);
    } catch (...) {
      failures[static_cast<std::size_t>(part)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int part = 1; part < parts; ++part) workers.emplace_back(run, part);
    run(0);
  }
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace samebits::tools
