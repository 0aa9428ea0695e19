#include "bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shared/table.hpp"

namespace samebits::tools {
namespace {

Json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"p95", spread.p95}, {"min", spread.min}, {"max", spread.max}};
}

}  // namespace

BenchRow bench_row(const Shape& shape, const BenchRun& run, std::int64_t tokens,
                   const BenchSamples& samples) {
  const bool both = run.direction == Direction::both;
  const double weight = static_cast<double>(shape.hidden) * static_cast<double>(shape.intermediate);
  BenchRow row{run.direction, tokens, run.layout, spread_of(samples.ours_us), {}, {}, {}, 0, 0};
  if (!samples.baseline_us.empty()) row.baseline = spread_of(samples.baseline_us);
  if (!samples.exposed_us.empty()) row.exposed = spread_of(samples.exposed_us);
  row.flops = 2 * weight * static_cast<double>(tokens) * (both ? 9 : 3);
  row.weight_bytes = weight * 3 * 2 * (both ? 3 : 1);
  return row;
}

Json row_json(const BenchRow& row, const std::string& baseline, const Contract& contract) {
  const double seconds = row.ours.median * 1e-6;
  Json json = {{"direction", name_of(row.direction)},
               {"tokens", row.tokens},
               {"layout", name_of(row.layout)},
               {"contract", name_of(contract)}};
  json["baseline"] = row.baseline ? Json(baseline) : Json(nullptr);
  json["ours_us"] = spread_json(row.ours);
  json["baseline_us"] = row.baseline ? spread_json(*row.baseline) : Json(nullptr);
  json["exposed_us"] = row.exposed ? spread_json(*row.exposed) : Json(nullptr);
  json["moved"] = row.moved ? Json{{"sent", row.moved->sent},
                                   {"received", row.moved->received},
                                   {"collectives", row.moved->collectives}}
                            : Json(nullptr);
  json["ratio"] = row.baseline ? Json(row.ratio()) : Json(nullptr);
  json["flops_per_second"] = row.flops / seconds;
  json["baseline_flops_per_second"] =
      row.baseline ? Json(row.flops / (row.baseline->median * 1e-6)) : Json(nullptr);
  json["weight_bytes_per_second"] = row.weight_bytes / seconds;
  return json;
}

Json ceiling_json(const Ceiling& ceiling) {
  Json flops = Json::object();
  for (const PeakFlops& peak : ceiling.flops) flops[peak.name] = peak.flops;
  return {
      {"flops_are", ceiling.flops_are},
      {"flops_per_second", flops},
      {"read_bytes_per_second", ceiling.read_bandwidth},
      {"copy_bytes_per_second", ceiling.copy_bandwidth > 0 ? Json(ceiling.copy_bandwidth) : Json(nullptr)}};
}

const char* name_of(Direction direction) { return direction == Direction::forward ? "forward" : "both"; }

std::string size_text(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.2f} GB", bytes / 1e9);
}

Json bench_json(const BenchResult& result, const Compute& compute) {
  Json report = report_head("bench");
  report["contract"] = contract_json(compute.contract);
  report["environment"] = environment_json(compute);
  add_peak_memory(report["environment"]);
  report["shape"] = {{"hidden", result.shape.shape.hidden},
                     {"intermediate", result.shape.shape.intermediate},
                     {"source", result.shape.name}};
  report["rows"] = Json::array();
  for (const BenchRow& row : result.rows)
    report["rows"].push_back(row_json(row, result.baseline, compute.contract));
  report["ceiling"] = ceiling_json(result.ceiling);
  report["notes"] = result.notes;
  return report;
}

void print_bench(const BenchResult& result, const Compute& compute) {
  fmt::print("block     {}: {}x{}, seed 0\ncontract  {}\nengine    {}\nbaseline  {}\n", result.shape.name,
             result.shape.shape.hidden, result.shape.shape.intermediate, samebits::name_of(compute.contract),
             compute.engine_text(), result.baseline.empty() ? "none" : result.baseline);
  for (const std::string& note : result.notes) fmt::print("          {}\n", note);
  const bool fast = compute.device.has_value();  // a GPU's times are told in microseconds
  const auto time_text = [&](double microseconds) {
    const double value = fast ? microseconds : microseconds / 1000;
    return value < 1e3 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
  };
  const bool exposes = std::any_of(result.rows.begin(), result.rows.end(),
                                   [](const BenchRow& row) { return row.exposed.has_value(); });
  std::vector<std::string> header = {fast ? "us" : "ms",
                                     "tokens",
                                     "layout",
                                     "median",
                                     "p95",
                                     "min",
                                     "max",
                                     "blas",
                                     "p95",
                                     "min",
                                     "max",
                                     "ratio"};
  const bool moves = std::any_of(result.rows.begin(), result.rows.end(),
                                 [](const BenchRow& row) { return row.moved.has_value(); });
  if (exposes) header.emplace_back("exposed");
  if (moves) header.emplace_back("moves");
  Table times(header, 1);
  Table rates({"G/s", "tokens", "layout", "FLOP", "blas FLOP", "weight bytes"}, 1);
  for (const BenchRow& row : result.rows) {
    const std::vector<std::string> key = {name_of(row.direction), fmt::format("{}", row.tokens),
                                          samebits::name_of(row.layout)};
    std::vector<std::string> time = key, rate = key;
    for (const double value : {row.ours.median, row.ours.p95, row.ours.min, row.ours.max})
      time.push_back(time_text(value));
    const double seconds = row.ours.median * 1e-6;
    rate.push_back(fmt::format("{:.1f}", row.flops / seconds * 1e-9));
    if (row.baseline) {
      const Spread& blas = *row.baseline;
      for (const double value : {blas.median, blas.p95, blas.min, blas.max}) time.push_back(time_text(value));
      time.push_back(fmt::format("{:.2f}", row.ratio()));
      rate.push_back(fmt::format("{:.1f}", row.flops / (blas.median * 1e-6) * 1e-9));
    } else {
      time.insert(time.end(), 5, "-");
      rate.emplace_back("-");
    }
    if (exposes) time.push_back(row.exposed ? time_text(row.exposed->median) : "-");
    if (moves)
      time.push_back(
          row.moved ? size_text(static_cast<double>(std::max(row.moved->sent, row.moved->received))) : "-");
    rate.push_back(fmt::format("{:.2f}", row.weight_bytes / seconds * 1e-9));
    times.add(time);
    rates.add(rate);
  }
  fmt::print("\n{}\n{}\n", times.text(), rates.text());
  std::string peaks;
  for (const PeakFlops& peak : result.ceiling.flops)
    peaks += fmt::format("{}{} {:.1f}", peaks.empty() ? "" : ", ", peak.name, peak.flops * 1e-9);
  fmt::print("ceiling   GFLOP/s, {}: {}\n          reading memory {:.1f} GB/s{}\n", result.ceiling.flops_are,
             peaks.empty() ? "not measured" : peaks, result.ceiling.read_bandwidth * 1e-9,
             result.ceiling.copy_bandwidth > 0
                 ? fmt::format(", copying {:.1f} (read and written)", result.ceiling.copy_bandwidth * 1e-9)
                 : "");
}

}  // namespace samebits::tools
