// samebits bench: the block timed in turn with the vendor's BLAS, in one run.
#include <fmt/format.h>

#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "bench/bench_layout.hpp"
#include "bench/blas_block.hpp"
#include "bench/device_bench.hpp"
#include "bench/device_layouts.hpp"
#include "bench/explain.hpp"
#include "bench/report.hpp"
#include "bench/serve.hpp"
#include "block/source.hpp"
#include "compute/report.hpp"
#include "samebits/version.hpp"
#include "shared/failure.hpp"
#include "shared/openblas.hpp"
#include "shared/progress.hpp"
#include "shared/shapes.hpp"
#include "verbs/verbs.hpp"

namespace samebits::tools {
namespace {

// Of each side, where the person does not say.
constexpr int kHostRepeats = 7, kDeviceReplays = 50;

struct Flags {
  std::string shape = "qwen3-8b", tokens = "1,8,32,128,512", direction = "forward", layouts = "tp1", json;
  int repeats = 0;  // as many as the engine wants by itself
  bool no_baseline = false, serve = false, explains = false;
  std::string links = "nvlink=240:11,400g=45:10";
  ComputeFlags compute;

  int repeats_or(int usual) const { return repeats > 0 ? repeats : usual; }
};

std::vector<Direction> directions_of(const std::string& word) {
  if (word == "forward") return {Direction::forward};
  if (word == "both") return {Direction::both};
  return {Direction::forward, Direction::both};
}

// OpenBLAS as it was loaded, null without; with as many threads as we have, and what a reader must know of
// it. Null where it cannot be a baseline.
const OpenBlas* as_baseline(OpenBlas* blas, const BlockCase& block, int threads, BenchResult& result) {
  if (blas == nullptr) {
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
  for (const std::string& word : split_list(flags.layouts)) {
    plans.layouts.push_back(parse_layout(word));
    if (flags.compute.engine != "cpu" && flags.compute.transport == "local" &&
        plans.layouts.back().ranks() > 1)
      fail_usage(fmt::format(
          "--layouts {0}: one GPU would play all its ranks; mpirun -np {1} and --transport nccl give each "
          "one of its own",
          word, plans.layouts.back().ranks()));
  }
  plans.directions = directions_of(flags.direction);
  return plans;
}

// With what its layout moves, where there are several ranks.
BenchRow row_of(const Compute& compute, const BlockCase& block, const BenchRun& run,
                const BenchSamples& samples) {
  BenchRow row = bench_row(block.shape, run, block.tokens, samples);
  if (run.layout.ranks() > 1)
    row.moved = moved_in(explain(compute, block.shape, run.layout, block.tokens, run.direction));
  return row;
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
  return row_of(compute, block, run, bench_layout(compute, block, run, baseline));
}

// each(run, block with the first of the tokens) for every row, in the order of the table.
template <class Each>
void for_each_row(int repeats, const Plans& plans, BlockCase block, const Each& each) {
  const ConstView x = block.x, dy = block.dy;
  for (const Direction direction : plans.directions) {
    for (const Layout& layout : plans.layouts) {
      for (const std::int64_t tokens : plans.tokens) {
        block.tokens = tokens;
        block.x = x.slice_rows(0, tokens);
        block.dy = dy.slice_rows(0, tokens);
        try {
          each(BenchRun{layout, direction, repeats}, block);
        } catch (const LayoutRefused& refusal) {
          refuse_by_name(layout, refusal);
        }
      }
    }
  }
}

// The other processes' part.
void join_host(const Flags& flags, const Compute& compute, const Plans& plans, const BlockCase& block) {
  for_each_row(flags.repeats_or(kHostRepeats), plans, block, [&](const BenchRun& run, const BlockCase& rows) {
    if (run.layout.ranks() > 1) bench_layout(compute, rows, run, {});
  });
}

// The block on the CPU, in turn with OpenBLAS.
void time_host(const Flags& flags, const Compute& compute, const Plans& plans, const BlockCase& block,
               OpenBlas* blas, BenchResult& result, Progress& progress) {
  const OpenBlas* const baseline =
      flags.no_baseline ? nullptr : as_baseline(blas, block, compute.threads, result);
  std::optional<BlasBlock> blas_block;
  if (baseline != nullptr)
    blas_block.emplace(*baseline, block, plans.directions.back() == Direction::both, compute.threads);

  progress.step("ceiling");
  result.ceiling.flops_are = "f32 multiply-adds in registers";
  result.ceiling.flops = measure_peak_flops(compute.threads);
  result.ceiling.read_bandwidth = measure_read_bandwidth({block.gate, block.up, block.down}, compute.threads);
  for_each_row(flags.repeats_or(kHostRepeats), plans, block, [&](const BenchRun& run, const BlockCase& rows) {
    progress.step(fmt::format("{} {} tokens, {}", name_of(run.direction), rows.tokens, name_of(run.layout)));
    result.rows.push_back(time_row(compute, rows, run, blas_block ? &*blas_block : nullptr));
  });
  if (compute.has_processes())
    result.notes.emplace_back(
        "ranks are processes: a run is as long as its slowest rank; layouts of several have no baseline");
}

// The block on a GPU of CUDA, in turn with its vendor's library.
void time_device(const Flags& flags, const Compute& compute, const Plans& plans, const BlockCase& block,
                 BenchResult& result, Progress& progress) {
  progress.step("ceiling");
  const bool both = plans.directions.back() == Direction::both;
  const auto bench = make_cuda_bench(compute, block, {.both = both, .baseline = !flags.no_baseline});
  result.ceiling = bench->ceiling();
  const int repeats = flags.repeats_or(kDeviceReplays);
  if (flags.serve) {
    serve_bench({*bench, compute, result.shape, block.tokens, both, repeats});
    return;
  }
  for (const Direction direction : plans.directions) {
    for (const std::int64_t tokens : plans.tokens) {
      progress.step(fmt::format("{} {} tokens", name_of(direction), tokens));
      const BenchSamples samples = bench->time(compute.contract, tokens, direction, repeats);
      result.rows.push_back(bench_row(block.shape, {{}, direction, repeats}, tokens, samples));
    }
  }
  result.baseline = bench->baseline();
  result.notes = bench->notes();
}

// The block on layouts whose ranks are processes with a GPU of CUDA each: every process's part, the rows on
// rank 0.
void time_layouts(const Flags& flags, const Compute& compute, const Plans& plans, const BlockCase& block,
                  BenchResult& result, Progress* progress) {
  if (progress != nullptr) progress->step("ceiling");
  const auto bench = make_cuda_layouts(compute, plans.directions.back() == Direction::both);
  for_each_row(
      flags.repeats_or(kDeviceReplays), plans, block, [&](const BenchRun& run, const BlockCase& rows) {
        if (progress != nullptr)
          progress->step(
              fmt::format("{} {} tokens, {}", name_of(run.direction), rows.tokens, name_of(run.layout)));
        const BenchSamples samples = bench->time(rows, run);
        if (compute.world->first()) result.rows.push_back(row_of(compute, rows, run, samples));
      });
  result.ceiling = bench->ceiling();
  result.notes = bench->notes();
}

std::vector<AgreedField> agreed_fields(const Flags& flags, const Compute& compute, const Shape& shape) {
  std::vector<AgreedField> fields = {{"the verb", "bench"},
                                     {"version", kVersion},
                                     {"shape", fmt::format("{}x{}", shape.hidden, shape.intermediate)},
                                     {"tokens", flags.tokens},
                                     {"direction", flags.direction},
                                     {"layouts", flags.layouts},
                                     {"repeats", fmt::format("{}", flags.repeats)}};
  for (AgreedField& field : compute.agreed()) fields.push_back(std::move(field));
  return fields;
}

// `blas`: on rank 0, where the engine is the CPU's and this machine has it.
int bench(const Flags& flags, const Compute& compute, OpenBlas* blas) {
  const World& world = *compute.world;
  BenchResult result;
  Plans plans;
  std::optional<ReportFile> report_file;
  world.together([&] {
    result.shape = parse_shape(flags.shape);
    plans = plans_of(flags, result.shape.shape);
    for (const Layout& layout : plans.layouts) check_ranks(compute, layout);
    report_file.emplace(world.first() ? flags.json : std::string{});
  });
  const Shape shape = result.shape.shape;
  agree(world, agreed_fields(flags, compute, shape));

  std::optional<Progress> progress;
  if (world.first()) {
    progress.emplace(plans.rows() + 2);
    progress->step("inputs");
  }
  const int threads = compute.threads_of_process();
  const std::int64_t most_tokens = *std::max_element(plans.tokens.begin(), plans.tokens.end());
  const LayerWeights weights = seeded_weights(shape, 0, threads);
  const HostTensor x = seeded_tokens(SeededTensor::x, shape, most_tokens, 0, threads);
  const HostTensor dy = seeded_tokens(SeededTensor::dy, shape, most_tokens, 0, threads);
  const BlockCase block{shape, most_tokens, x.view(), dy.view(), weights.gate, weights.up, weights.down};
  if (compute.device_engine && compute.has_processes()) {
    time_layouts(flags, compute, plans, block, result, progress ? &*progress : nullptr);
  } else if (!world.first()) {
    join_host(flags, compute, plans, block);
  } else if (compute.device_engine) {
    time_device(flags, compute, plans, block, result, *progress);
  } else {
    time_host(flags, compute, plans, block, blas, result, *progress);
  }
  if (!world.first()) return kHeld;  // what rank 0 returns counts
  progress.reset();
  if (flags.serve) return kHeld;
  if (!report_file->takes_stdout()) print_bench(result, compute);
  report_file->commit(bench_json(result, compute));
  return kHeld;
}

// Sizes alone: no input is made and nothing is timed.
int explain_all(const Flags& flags, const Compute& compute) {
  const NamedShape shape = parse_shape(flags.shape);
  const std::vector<Link> links = parse_links(flags.links);
  ReportFile report_file(flags.json);
  std::vector<Explained> rows;
  for (const Direction direction : directions_of(flags.direction)) {
    for (const std::string& layout : split_list(flags.layouts)) {
      for (const std::string& word : split_list(flags.tokens)) {
        const std::int64_t tokens = parse_count("--tokens", word);
        check_sizes(shape.shape, tokens);
        rows.push_back(explain(compute, shape.shape, parse_layout(layout), tokens, direction));
      }
    }
  }
  if (!report_file.takes_stdout()) print_explained(rows, links, shape, compute);
  report_file.commit(explained_json(rows, links, shape, compute));
  return kHeld;
}

int run_bench(const Flags& flags) {
  // On every path that times: what times a device is CUDA's alone.
  if (flags.compute.engine == "hip" && !flags.explains)
    fail_usage("--engine hip: bench times the cpu and cuda engines; with --explain it counts bytes for hip");
  if (flags.serve && (flags.compute.engine == "cpu" || !flags.json.empty()))
    fail_usage("--serve answers on stdout for an engine of a device (--engine cuda); it writes no report");
  if (flags.compute.transport != "local" && flags.explains)
    fail_usage("--explain counts bytes and times nothing: without --transport");
  if (flags.compute.transport != "local" && flags.serve)
    fail_usage("--serve answers for one process: without --transport");
  if (flags.compute.transport == "mpi" && flags.compute.engine != "cpu")
    fail_usage(fmt::format(
        "--transport mpi --engine {}: bench times what graphs hold, and MPI's exchanges are not in them; "
        "--transport nccl, or --engine cpu",
        flags.compute.engine));
  // Before the world is made: MPI has threads. Which process is rank 0 is known afterwards.
  std::unique_ptr<OpenBlas> blas;
  if (flags.compute.engine == "cpu" && !flags.no_baseline && !flags.explains)
    blas = OpenBlas::load_for_this_processor();
  return run_verb(flags.compute, [&](const Compute& compute) {
    if (flags.explains) return explain_all(flags, compute);
    if (!compute.world->first()) blas.reset();
    return bench(flags, compute, blas.get());
  });
}

}  // namespace

Verb add_bench(CLI::App& command) {
  CLI::App* verb = command.add_subcommand(
      "bench", "Time the block in turn with the vendor's BLAS doing the same products");
  const auto flags = std::make_shared<Flags>();
  verb->add_option("--shape", flags->shape, "a Qwen3 size (" + shape_names() + ") or HxI")
      ->capture_default_str();
  verb->add_option("--tokens", flags->tokens, "list of token counts")->capture_default_str();
  verb->add_option("--direction", flags->direction, "forward; both: forward and backward; all: either")
      ->check(CLI::IsMember({"forward", "both", "all"}))
      ->capture_default_str();
  verb->add_option("--layouts", flags->layouts, "list of layouts")->capture_default_str();
  verb->add_option("--repeats", flags->repeats,
                   "timed runs of each side (7), replays of a graph of several calls with --engine cuda (50)")
      ->check(CLI::Range(1, 1000000));
  verb->add_flag("--no-baseline", flags->no_baseline, "time ours alone");
  verb->add_flag("--serve", flags->serve,
                 "with --engine cuda: a row of JSON for each line CONTRACT TOKENS forward|both of stdin");
  CLI::Option* explains =
      verb->add_flag("--explain", flags->explains,
                     "time nothing: list what each layout moves between ranks, in bytes and over --links");
  verb->add_option("--links", flags->links, "list of NAME=GIGABYTES_A_SECOND:MICROSECONDS_A_COLLECTIVE")
      ->capture_default_str()
      ->needs(explains);
  flags->compute.add_to(*verb);
  add_json_flag(*verb, flags->json);
  verb->footer(
      "Example:\n  samebits bench --contract f32-tree-v1 --tokens 32,512 --direction all --json bench.json");
  return {verb, [flags] { return run_bench(*flags); }};
}

}  // namespace samebits::tools
