// A bench that answers requests, so that another program can time itself in turn with it.
#pragma once

#include "bench/device_bench.hpp"
#include "compute/report.hpp"
#include "shared/shapes.hpp"

namespace samebits::tools {

struct ServedBench {
  DeviceBench& bench;
  const Compute& compute;
  const NamedShape& shape;
  std::int64_t most_tokens = 0;
  bool both = false;
  int repeats = 0;
};

// Stdout: the report's head on a line, then a row or {"error": ...} for each line "CONTRACT TOKENS
// forward|both" of stdin, until that ends.
void serve_bench(const ServedBench& served);

}  // namespace samebits::tools
