// What a bench measured, as tables and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/bench_layout.hpp"
#include "bench/ceiling.hpp"
#include "bench/spread.hpp"
#include "compute/report.hpp"
#include "samebits/transport.hpp"
#include "shared/shapes.hpp"

namespace samebits::tools {

struct BenchRow {
  Direction direction;
  std::int64_t tokens;
  Layout layout;
  Spread ours;
  std::optional<Spread> baseline;
  std::optional<Spread> exposed;  // waiting for exchanges, of several ranks
  std::optional<Moved> moved;     // by a call of the rank that moves most, of several ranks
  double flops = 0;               // of the products, once
  double weight_bytes =
      0;  // read once by a forward; both directions read them twice and write as many gradients

  double ratio() const { return ours.median / baseline->median; }
};

// A row's times and what its block costs.
BenchRow bench_row(const Shape& shape, const BenchRun& run, std::int64_t tokens, const BenchSamples& samples);

struct BenchResult {
  NamedShape shape;
  std::string baseline;
  std::vector<std::string> notes;
  std::vector<BenchRow> rows;
  Ceiling ceiling;
};

const char* name_of(Direction direction);
std::string size_text(double bytes);  // "12.6 MB"
Json row_json(const BenchRow& row, const std::string& baseline, const Contract& contract);
Json ceiling_json(const Ceiling& ceiling);

void print_bench(const BenchResult& result, const Compute& compute);
Json bench_json(const BenchResult& result, const Compute& compute);

}  // namespace samebits::tools
