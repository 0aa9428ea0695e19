// samebits verify: the block at TP1 and on every layout, forward and backward, bit for bit.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "block/source.hpp"
#include "shared/failure.hpp"
#include "shared/machine.hpp"
#include "shared/progress.hpp"
#include "shared/shapes.hpp"
#include "verbs/verbs.hpp"
#include "verify/report.hpp"

namespace samebits::tools {
namespace {

constexpr const char* kAllLayouts = "tp2,tp2+sp,tp4,tp2+cp2,tp2+cp2+sp,tp8,tp4+cp2,tp4+cp2+sp";

struct Flags {
  std::string shape = "qwen3-8b", tokens = "32", checkpoint, layer, recording, batches, layouts = "all",
              gradient_dtype = "bf16", json;
  std::uint64_t seed = 0;
  bool accuracy = false, no_reference = false;
  ComputeFlags compute;
};

// tp1 is always there, so it is left out of the list.
std::vector<Layout> layouts_of(const std::string& text) {
  std::vector<Layout> layouts;
  for (const std::string& word : split_list(text == "all" ? kAllLayouts : text)) {
    const Layout layout = parse_layout(word);
    if (layout.ranks() > 1 && std::find(layouts.begin(), layouts.end(), layout) == layouts.end())
      layouts.push_back(layout);
  }
  return layouts;
}

// Refused before the machine starts to swap: whole tensors, replicas of gradients, and what ranks hold of the
// tokens.
void check_memory(const BlockCase& block, const std::vector<Layout>& layouts) {
  int most_tp = 1, most_cp = 1;
  for (const Layout& layout : layouts) {
    most_tp = std::max(most_tp, layout.tp);
    most_cp = std::max(most_cp, layout.cp);
  }
  const double weight =
      static_cast<double>(block.shape.hidden) * static_cast<double>(block.shape.intermediate);
  const double tokens = static_cast<double>(block.tokens);
  const double gradients = 3 * weight * static_cast<double>(size_of(block.gradients)) * (1 + most_cp);
  const double hidden_rows = tokens * static_cast<double>(block.shape.hidden) * 2 * (8 + 3 * most_tp);
  const double intermediate_rows = tokens * static_cast<double>(block.shape.intermediate) * 2 * 6;
  const double needed = 3 * weight * 2 + gradients + hidden_rows + intermediate_rows;
  const double there = static_cast<double>(physical_memory_bytes());
  if (needed > there) {
    throw Error(ErrorCode::out_of_memory,
                fmt::format("out of memory: {} tokens at {}x{} on these layouts need about {:.3g} GiB, this "
                            "machine has {:.3g}",
                            block.tokens, block.shape.hidden, block.shape.intermediate, needed / (1 << 30),
                            there / (1 << 30)));
  }
}

LayoutRow run_row(const Compute& compute, const BlockCase& block, const Layout& layout,
                  const BlockTensors& exact, BlockTensors& scratch, bool refusals_are_rows) {
  LayoutRow row{layout, RowStatus::ok, {}, {}, {}};
  try {
    row.outcome = run_layout(compute, block, {.layout = layout, .exact = &exact}, scratch);
  } catch (const LayoutRefused& refusal) {
    if (!refusals_are_rows) throw;
    row.status = RowStatus::refused;
    row.reason = refusal.what();
    return row;
  }
  row.digest = digests_of(scratch, compute.threads);
  const auto& differing = row.outcome.differing;
  if (std::any_of(differing.begin(), differing.end(), [](auto count) { return count != 0; }))
    row.status = RowStatus::mismatch;
  return row;
}

struct Task {
  std::vector<Layout> layouts;
  bool all = false;  // refusals are rows
  bool reference = true;
  bool accuracy = false;
  std::vector<std::int64_t> batches;
  const Recording* recording = nullptr;
};

std::vector<std::int64_t> batches_of(const std::string& text, std::int64_t tokens) {
  std::vector<std::int64_t> batches;
  if (text.empty()) return batches;
  for (const std::string& word : split_list(text)) {
    batches.push_back(parse_count("--batches", word));
    if (batches.back() < 1 || batches.back() > tokens)
      fail_usage(fmt::format("--batches {}: a batch has from 1 to all {} tokens", word, tokens));
  }
  return batches;
}

void run_task(const Task& task, const Compute& compute, const BlockCase& block, VerifyResult& result,
              Progress& progress) {
  progress.step("tp1");
  BlockTensors exact(block.shape, block.tokens, block.gradients);
  run_layout(compute, block, {}, exact);
  BlockTensors scratch(block.shape, block.tokens, block.gradients);
  progress.step("tp1 again");
  result.rows.push_back(run_row(compute, block, {}, exact, scratch, false));
  for (const Layout& layout : task.layouts) {
    progress.step(name_of(layout));
    result.rows.push_back(run_row(compute, block, layout, exact, scratch, task.all));
  }
  progress.step("control");
  result.power = run_layout(compute, block, {.control = true, .exact = &exact}, scratch).differing;
  progress.step("rows alone");
  result.row_vs_batch = check_rows(compute, block, exact);
  if (!task.batches.empty()) {
    progress.step("batches");
    result.batches = check_batches(compute, block, exact, task.batches);
  }
  if (task.recording != nullptr) {
    progress.step("recording");
    result.recording = task.recording->check(exact);
  }
  progress.step("golden digests");
  result.golden = check_golden(compute);
  if (task.reference) {
    progress.step("reference");
    result.reference = check_reference(compute, block, exact);
  }
  if (task.accuracy) {
    progress.step("float64");
    result.accuracy =
        measure_accuracy(block, exact, compute.threads, [&](double done) { progress.share(done); });
  }
}

int run_verify(const Flags& flags) {
  const auto begun = std::chrono::steady_clock::now();
  const Compute compute(flags.compute);
  Task task{
      layouts_of(flags.layouts), flags.layouts == "all", !flags.no_reference, flags.accuracy, {}, nullptr};
  std::int64_t tokens = parse_count("--tokens", flags.tokens);
  NamedShape named = parse_shape(flags.shape);
  std::optional<LayerWeights> weights;
  if (!flags.checkpoint.empty()) {
    weights = load_layer(flags.checkpoint, parse_count("--layer", flags.layer));
    named = {{}, weights->shape};
  }
  BlockCase block;
  block.shape = named.shape;
  block.gradients = flags.gradient_dtype == "f32" ? DType::f32 : DType::bf16;
  std::optional<Recording> recording;
  if (!flags.recording.empty()) {
    recording.emplace(flags.recording, block.shape, block.gradients);
    task.recording = &*recording;
    tokens = recording->x().rows;
  }
  block.tokens = tokens;
  task.batches = batches_of(flags.batches, tokens);
  check_sizes(block.shape, tokens);
  check_memory(block, task.layouts);
  ReportFile report_file(flags.json);

  std::optional<Progress> progress(std::in_place, static_cast<int>(task.layouts.size()) + 6 + task.reference +
                                                      task.accuracy + !task.batches.empty() +
                                                      (task.recording != nullptr));
  progress->step("inputs");
  if (!weights) weights = seeded_weights(block.shape, flags.seed, compute.threads);
  HostTensor x, dy;
  if (recording) {
    block.x = recording->x();
    block.dy = recording->dy();
  } else {
    x = seeded_tokens(SeededTensor::x, block.shape, tokens, flags.seed, compute.threads);
    dy = seeded_tokens(SeededTensor::dy, block.shape, tokens, flags.seed, compute.threads);
    block.x = std::as_const(x).view();
    block.dy = std::as_const(dy).view();
  }
  block.gate = weights->gate;
  block.up = weights->up;
  block.down = weights->down;

  VerifyResult result;
  result.shape = block.shape;
  result.tokens = tokens;
  if (recording) {
    result.source = fmt::format("{}, x and dy of {}", weights->source, flags.recording);
  } else {
    result.source = named.name.empty() ? fmt::format("{}, x and dy of seed {}", weights->source, flags.seed)
                                       : fmt::format("{}, {}", named.name, weights->source);
  }
  result.note = weights->conversion;
  if (recording && !recording->conversion().empty())
    result.note += (result.note.empty() ? "" : ", ") + recording->conversion();
  run_task(task, compute, block, result, *progress);
  progress.reset();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();

  if (!report_file.takes_stdout()) print_verify(result, compute);
  report_file.commit(verify_json(result, compute));
  const bool none_ran =
      !task.layouts.empty() && std::all_of(result.rows.begin() + 1, result.rows.end(),
                                           [](auto& row) { return row.status == RowStatus::refused; });
  if (result.ok() && none_ran) {
    print_failure(fmt::format("every layout was refused; the first: {}", result.rows[1].reason));
    return kUsage;
  }
  return result.ok() ? kHeld : kMismatch;
}

}  // namespace

Verb add_verify(CLI::App& command) {
  CLI::App* verb = command.add_subcommand(
      "verify", "The block at TP1 and on every layout: count the elements that differ");
  const auto flags = std::make_shared<Flags>();
  CLI::Option* shape =
      verb->add_option("--shape", flags->shape, "a Qwen3 size (" + shape_names() + ") or HxI")
          ->capture_default_str();
  CLI::Option* checkpoint =
      verb->add_option("--checkpoint", flags->checkpoint, "Hugging Face folder to take the weights from");
  CLI::Option* layer = verb->add_option("--layer", flags->layer, "of the checkpoint")->type_name("N");
  checkpoint->needs(layer)->excludes(shape)->type_name("DIR");
  layer->needs(checkpoint);
  CLI::Option* tokens = verb->add_option("--tokens", flags->tokens, "rows of x")->capture_default_str();
  verb->add_option(
          "--recording", flags->recording,
          "safetensors file with x and dy, and the y, dx, d_gate, d_up, d_down that other software made of "
          "them: held against ours")
      ->needs(checkpoint)
      ->excludes(tokens)
      ->type_name("FILE");
  verb->add_option("--batches", flags->batches, "list: the first N rows as a batch of their own, y and dx")
      ->type_name("LIST");
  verb->add_option("--seed", flags->seed, "of x and dy, and of the weights without a checkpoint")
      ->capture_default_str();
  verb->add_option("--layouts", flags->layouts, "all, or a list: tp2,tp4+cp2+sp")->capture_default_str();
  verb->add_option("--gradient-dtype", flags->gradient_dtype, "of the weight gradients")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->capture_default_str();
  verb->add_flag("--accuracy", flags->accuracy, "add errors against the block in float64");
  verb->add_flag("--no-reference", flags->no_reference, "skip the samples that are evaluated literally");
  flags->compute.add_to(*verb);
  add_json_flag(*verb, flags->json);
  verb->footer(
      "Examples:\n"
      "  samebits verify\n"
      "  samebits verify --shape qwen3-4b --tokens 77 --contract sm90-v1 --layouts tp2+sp,tp4+cp2 --json -\n"
      "  samebits verify --checkpoint Qwen3-8B --layer 17 --accuracy\n"
      "  samebits verify --checkpoint block --layer 0 --recording pytorch.safetensors --contract hf-sm90-v1");
  return {verb, [flags] { return run_verify(*flags); }};
}

}  // namespace samebits::tools
