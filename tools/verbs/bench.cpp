// samebits bench: the block timed in turn with the vendor's BLAS, in one run.
#include <fmt/format.h>

#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>

#include "bench/bench_layout.hpp"
#include "bench/blas_block.hpp"
#include "bench/ceiling.hpp"
#include "bench/spread.hpp"
#include "block/source.hpp"
#include "shared/failure.hpp"
#include "shared/openblas.hpp"
#include "shared/progress.hpp"
#include "shared/report.hpp"
#include "shared/shapes.hpp"
#include "shared/table.hpp"
#include "verbs/verbs.hpp"

namespace samebits::tools {
namespace {

struct Flags {
  std::string shape = "qwen3-8b", tokens = "1,8,32,128,512", direction = "forward", layouts = "tp1", json;
  int repeats = 7;
  ComputeFlags compute;
};

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

const char* name_of(Direction direction) { return direction == Direction::forward ? "forward" : "both"; }

std::vector<Direction> directions_of(const std::string& word) {
  if (word == "forward") return {Direction::forward};
  if (word == "both") return {Direction::both};
  return {Direction::forward, Direction::both};
}

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

// OpenBLAS with as many threads as we have, and what a reader must know of it.
std::unique_ptr<OpenBlas> load_baseline(const BlockCase& block, int threads, BenchResult& result) {
  auto blas = OpenBlas::load_for_this_processor();
  if (!blas) {
    result.notes = {"OpenBLAS is not on this machine (libopenblas.so.0; Debian: libopenblas0): no baseline"};
    return nullptr;
  }
  const std::int64_t most = std::numeric_limits<int>::max();
  if (block.shape.hidden > most || block.shape.intermediate > most || block.tokens > most) {
    result.notes = {"OpenBLAS counts in 32 bits, too few for these sizes: no baseline"};
    return nullptr;
  }
  blas->set_threads(threads);
  result.baseline = fmt::format("OpenBLAS sgemm, core {}, {} threads", blas->core(), threads);
  result.notes = {
      "the same products on f32 copies of the weights, without the activation, in turn with ours"};
  if (blas->own_core() != blas->core()) {
    result.notes.push_back(fmt::format("by itself it takes this processor for a {}; it was told {}",
                                       blas->own_core(), blas->core()));
  }
  if (const char* forced = std::getenv("OPENBLAS_CORETYPE")) {
    result.notes.push_back(fmt::format("OPENBLAS_CORETYPE={} is set, and it uses {}", forced, blas->core()));
  }
  return blas;
}

// What is to be timed.
struct Plans {
  std::vector<std::int64_t> tokens;
  std::vector<Layout> layouts;
  std::vector<Direction> directions;
  int rows() const { return static_cast<int>(tokens.size() * layouts.size() * directions.size()); }
};

Plans plans_of(const Flags& flags, const Shape& shape) {
  Plans plans;
  for (const std::string& word : split_list(flags.tokens)) {
    plans.tokens.push_back(parse_count("--tokens", word));
    if (plans.tokens.back() == 0) fail_usage("--tokens 0: a bench wants at least one token");
    check_sizes(shape, plans.tokens.back());
  }
  for (const std::string& word : split_list(flags.layouts)) plans.layouts.push_back(parse_layout(word));
  plans.directions = directions_of(flags.direction);
  return plans;
}

// `block` holds the first of the tokens that the row takes.
BenchRow time_row(const Compute& compute, const BlockCase& block, const BenchRun& run, BlasBlock* blas) {
  const bool both = run.direction == Direction::both;
  std::function<void()> baseline;
  if (blas != nullptr) {
    baseline = [&] {
      blas->forward(block.tokens);
      if (both) blas->backward(block.tokens);
    };
  }
  const BenchSamples samples = bench_layout(compute, block, run, baseline);
  const double weight =
      static_cast<double>(block.shape.hidden) * static_cast<double>(block.shape.intermediate);
  BenchRow row{run.direction, block.tokens, run.layout, spread_of(samples.ours_us), {}, 0, 0};
  if (blas != nullptr) row.baseline = spread_of(samples.baseline_us);
  row.flops = 2 * weight * static_cast<double>(block.tokens) * (both ? 9 : 3);
  row.weight_bytes = weight * 3 * 2 * (both ? 3 : 1);
  return row;
}

int run_bench(const Flags& flags) {
  const Compute compute(flags.compute);
  BenchResult result;
  result.shape = parse_shape(flags.shape);
  const Shape shape = result.shape.shape;
  const Plans plans = plans_of(flags, shape);
  ReportFile report_file(flags.json);

  std::optional<Progress> progress(std::in_place, plans.rows() + 2);
  progress->step("inputs");
  const std::int64_t most_tokens = *std::max_element(plans.tokens.begin(), plans.tokens.end());
  const LayerWeights weights = seeded_weights(shape, 0, compute.threads);
  const HostTensor x = seeded_tokens(SeededTensor::x, shape, most_tokens, 0, compute.threads);
  const HostTensor dy = seeded_tokens(SeededTensor::dy, shape, most_tokens, 0, compute.threads);
  BlockCase block{shape, most_tokens, x.view(), dy.view(), weights.gate, weights.up, weights.down};
  const auto blas = load_baseline(block, compute.threads, result);
  std::optional<BlasBlock> blas_block;
  if (blas) blas_block.emplace(*blas, block, plans.directions.back() == Direction::both, compute.threads);

  progress->step("ceiling");
  result.peaks = measure_peak_flops(compute.threads);
  result.read_bandwidth = measure_read_bandwidth({block.gate, block.up, block.down}, compute.threads);
  for (const Direction direction : plans.directions) {
    for (const Layout& layout : plans.layouts) {
      for (const std::int64_t tokens : plans.tokens) {
        progress->step(
            fmt::format("{} {} tokens, {}", name_of(direction), tokens, samebits::name_of(layout)));
        block.tokens = tokens;
        block.x = x.view().slice_rows(0, tokens);
        block.dy = dy.view().slice_rows(0, tokens);
        const BenchRun run{layout, direction, flags.repeats};
        result.rows.push_back(time_row(compute, block, run, blas_block ? &*blas_block : nullptr));
      }
    }
  }
  progress.reset();
  if (!report_file.takes_stdout()) print_bench(result, compute);
  report_file.commit(bench_json(result, compute));
  return kHeld;
}

}  // namespace

Verb add_bench(CLI::App& command) {
  CLI::App* verb =
      command.add_subcommand("bench", "Time the block in turn with OpenBLAS doing the same products");
  const auto flags = std::make_shared<Flags>();
  verb->add_option("--shape", flags->shape, "a Qwen3 size (" + shape_names() + ") or HxI")
      ->capture_default_str();
  verb->add_option("--tokens", flags->tokens, "list of token counts")->capture_default_str();
  verb->add_option("--direction", flags->direction, "forward; both: forward and backward; all: either")
      ->check(CLI::IsMember({"forward", "both", "all"}))
      ->capture_default_str();
  verb->add_option("--layouts", flags->layouts, "list of layouts")->capture_default_str();
  verb->add_option("--repeats", flags->repeats, "timed runs of each side")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  flags->compute.add_to(*verb);
  add_json_flag(*verb, flags->json);
  verb->footer(
      "Example:\n  samebits bench --contract f32-tree-v1 --tokens 32,512 --direction all --json bench.json");
  return {verb, [flags] { return run_bench(*flags); }};
}

}  // namespace samebits::tools
