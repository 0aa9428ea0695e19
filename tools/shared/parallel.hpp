// Loops of the command's own work (seeding, comparing, the float64 block) over plain threads.
#pragma once

#include <cstdint>
#include <functional>

namespace samebits::tools {

// body(begin, end, part) for `threads` even parts of [0, count), each on its own thread; rethrows the first
// failure.
void parallel_parts(int threads, std::int64_t count,
                    const std::function<void(std::int64_t begin, std::int64_t end, int part)>& body);

}  // namespace samebits::tools
