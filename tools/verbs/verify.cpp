// samebits verify: the block at TP1 and on every layout, forward and backward, bit for bit.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "shared/failure.hpp"
#include "shared/machine.hpp"
#include "shared/progress.hpp"
#include "shared/shapes.hpp"
#include "verbs/verbs.hpp"
#include "verify/report.hpp"
#include "verify/work.hpp"

namespace samebits::tools {
namespace {

LayoutRow run_row(const Compute& compute, const BlockCase& block, const Layout& layout,
                  const BlockTensors& exact, BlockTensors& scratch, bool refusals_are_rows) {
  LayoutRow row{layout, RowStatus::ok, {}, {}, {}};
  try {
    row.outcome = run_layout(compute, block, {.layout = layout, .exact = &exact}, scratch);
  } catch (const LayoutRefused& refusal) {
    if (!refusals_are_rows) refuse_by_name(layout, refusal);
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

void run_task(const VerifyTask& task, const Compute& compute, const BlockCase& block, VerifyResult& result,
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
  if (task.micro_batches > 0) {
    progress.step("micro-batches");
    result.micro_batches = check_micro_batches(compute, block, exact, task.micro_batches);
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

// The other processes' part of it.
void join_task(const VerifyTask& task, const Compute& compute, const BlockCase& block) {
  for (const Layout& layout : task.layouts) {
    try {
      join_layout(compute, block, {.layout = layout});
    } catch (const LayoutRefused& refusal) {
      if (!task.all) refuse_by_name(layout, refusal);
    }
  }
}

int verify(const VerifyFlags& flags, const Compute& compute) {
  const auto begun = std::chrono::steady_clock::now();
  const World& world = *compute.world;
  std::optional<VerifyWork> work;
  std::optional<ReportFile> report_file;
  world.together([&] {
    work.emplace(flags, compute);
    report_file.emplace(world.first() ? flags.json : std::string{});
  });
  agree(world, work->agreed(flags, compute));
  if (!world.first()) {
    work->make_inputs(flags, compute.threads_of_process());
    join_task(work->task, compute, work->block);
    world.gather(std::to_string(peak_rss_bytes()));
    return kHeld;  // what rank 0 returns counts
  }

  std::optional<Progress> progress(std::in_place, work->steps());
  progress->step("inputs");
  work->make_inputs(flags, compute.threads_of_process());
  const BlockCase& block = work->block;
  VerifyResult result;
  result.shape = block.shape;
  result.tokens = block.tokens;
  result.source = work->source(flags);
  result.note = work->note();
  run_task(work->task, compute, block, result, *progress);
  progress.reset();
  for (const std::string& peak : world.gather(std::to_string(peak_rss_bytes())))
    result.peak_rss_bytes.push_back(std::stoll(peak));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();

  if (!report_file->takes_stdout()) print_verify(result, compute);
  report_file->commit(verify_json(result, compute));
  const bool none_ran =
      !work->task.layouts.empty() && std::all_of(result.rows.begin() + 1, result.rows.end(),
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
  const auto flags = std::make_shared<VerifyFlags>();
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
  verb->add_option("--micro-batches", flags->micro_batches,
                   "the weight gradients again, summed over so many backward calls")
      ->type_name("N");
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
      "  samebits verify --checkpoint block --layer 0 --recording pytorch.safetensors --contract hf-sm90-v1\n"
      "  mpirun -np 8 samebits verify --transport mpi\n"
      "With mpi every process is started with the same flags and plays one rank; rank 0 prints and writes.");
  return {verb, [flags] {
            return run_verb(flags->compute, [&](const Compute& compute) { return verify(*flags, compute); });
          }};
}

}  // namespace samebits::tools
