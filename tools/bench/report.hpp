// What a bench measured, as tables and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/bench_layout.hpp"
#include "bench/ceiling.hpp"
#include "bench/spread.hpp"
#include "shared/report.hpp"
#include "shared/shapes.hpp"

namespace samebits::tools {

struct BenchRow {
  Direction direction;
  std::int64_t tokens;
  Layout layout;
  Spread ours;
  std::optional<Spread> baseline;
  double flops = 0;  // of the products, once
  double weight_bytes =
      0;  // read once by a forward; both directions read them twice and write as many gradients

  double ratio() const { return ours.median / baseline->median; }
};

struct BenchResult {
  NamedShape shape;
  std::string baseline;
  std::vector<std::string> notes;
  std::vector<BenchRow> rows;
  std::vector<PeakFlops> peaks;
  double read_bandwidth = 0;
};

const char* name_of(Direction direction);

void print_bench(const BenchResult& result, const Compute& compute);
Json bench_json(const BenchResult& result, const Compute& compute);

}  // namespace samebits::tools
