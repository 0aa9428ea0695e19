#include "bench/report.hpp"

#include <fmt/format.h>

#include "shared/table.hpp"

namespace samebits::tools {
namespace {

Json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"p95", spread.p95}, {"min", spread.min}, {"max", spread.max}};
}

Json row_json(const BenchRow& row, const BenchResult& result, const Contract& contract) {
  const double seconds = row.ours.median * 1e-6;
  Json json = {{"direction", name_of(row.direction)},
               {"tokens", row.tokens},
               {"layout", name_of(row.layout)},
               {"contract", name_of(contract)}};
  json["baseline"] = row.baseline ? Json(result.baseline) : Json(nullptr);
  json["ours_us"] = spread_json(row.ours);
  json["baseline_us"] = row.baseline ? spread_json(*row.baseline) : Json(nullptr);
  json["ratio"] = row.baseline ? Json(row.ratio()) : Json(nullptr);
  json["flops_per_second"] = row.flops / seconds;
  json["baseline_flops_per_second"] =
      row.baseline ? Json(row.flops / (row.baseline->median * 1e-6)) : Json(nullptr);
  json["weight_bytes_per_second"] = row.weight_bytes / seconds;
  return json;
}

}  // namespace

const char* name_of(Direction direction) { return direction == Direction::forward ? "forward" : "both"; }

Json bench_json(const BenchResult& result, const Compute& compute) {
  Json report = report_head("bench");
  report["contract"] = contract_json(compute.contract);
  report["environment"] = environment_json(compute);
  add_peak_memory(report["environment"]);
  report["shape"] = {{"hidden", result.shape.shape.hidden},
                     {"intermediate", result.shape.shape.intermediate},
                     {"source", result.shape.name}};
  report["rows"] = Json::array();
  for (const BenchRow& row : result.rows) report["rows"].push_back(row_json(row, result, compute.contract));
  Json flops = Json::object();
  for (const PeakFlops& peak : result.peaks) flops[peak.isa] = peak.flops;
  report["ceiling"] = {{"flops_per_second", flops}, {"read_bytes_per_second", result.read_bandwidth}};
  report["notes"] = result.notes;
  return report;
}

void print_bench(const BenchResult& result, const Compute& compute) {
  fmt::print("block     {}: {}x{}, seed 0\ncontract  {}\nengine    {} ({}, {} threads)\nbaseline  {}\n",
             result.shape.name, result.shape.shape.hidden, result.shape.shape.intermediate,
             samebits::name_of(compute.contract), compute.engine, compute.isa_name, compute.threads,
             result.baseline.empty() ? "none" : result.baseline);
  for (const std::string& note : result.notes) fmt::print("          {}\n", note);
  const auto ms = [](double microseconds) {
    return microseconds < 1e6 ? fmt::format("{:.4g}", microseconds / 1000)
                              : fmt::format("{:.0f}", microseconds / 1000);
  };
  Table times({"ms", "tokens", "layout", "median", "p95", "min", "max", "blas", "p95", "min", "max", "ratio"},
              1);
  Table rates({"G/s", "tokens", "layout", "FLOP", "blas FLOP", "weight bytes"}, 1);
  for (const BenchRow& row : result.rows) {
    const std::vector<std::string> key = {name_of(row.direction), fmt::format("{}", row.tokens),
                                          samebits::name_of(row.layout)};
    std::vector<std::string> time = key, rate = key;
    for (const double value : {row.ours.median, row.ours.p95, row.ours.min, row.ours.max})
      time.push_back(ms(value));
    const double seconds = row.ours.median * 1e-6;
    rate.push_back(fmt::format("{:.1f}", row.flops / seconds * 1e-9));
    if (row.baseline) {
      const Spread& blas = *row.baseline;
      for (const double value : {blas.median, blas.p95, blas.min, blas.max}) time.push_back(ms(value));
      time.push_back(fmt::format("{:.2f}", row.ratio()));
      rate.push_back(fmt::format("{:.1f}", row.flops / (blas.median * 1e-6) * 1e-9));
    } else {
      time.insert(time.end(), 5, "-");
      rate.emplace_back("-");
    }
    rate.push_back(fmt::format("{:.2f}", row.weight_bytes / seconds * 1e-9));
    times.add(time);
    rates.add(rate);
  }
  fmt::print("\n{}\n{}\n", times.text(), rates.text());
  std::string peaks;
  for (const PeakFlops& peak : result.peaks) peaks += fmt::format("{} {:.1f}, ", peak.isa, peak.flops * 1e-9);
  fmt::print("ceiling   f32 GFLOP/s in registers: {}reading the weights: {:.1f} GB/s\n", peaks,
             result.read_bandwidth * 1e-9);
}

}  // namespace samebits::tools
