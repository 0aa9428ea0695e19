#include "verify/work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "samebits/version.hpp"
#include "shared/failure.hpp"
#include "shared/machine.hpp"

namespace samebits::tools {
namespace {

constexpr const char* kAllLayouts = "tp2,tp2+sp,tp4,tp2+cp2,tp2+cp2+sp,tp8,tp4+cp2,tp4+cp2+sp";

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
// tokens. Processes each hold the weights, and a shard of the gradients beside rank 0's whole ones.
void check_memory(const Compute& compute, const BlockCase& block, const std::vector<Layout>& layouts) {
  int most_tp = 1, most_cp = 1;
  for (const Layout& layout : layouts) {
    most_tp = std::max(most_tp, layout.tp);
    most_cp = std::max(most_cp, layout.cp);
  }
  const double weight =
      static_cast<double>(block.shape.hidden) * static_cast<double>(block.shape.intermediate);
  const double tokens = static_cast<double>(block.tokens);
  const double gradients =
      3 * weight * static_cast<double>(size_of(block.gradients)) * (1 + most_cp + compute.has_processes());
  const double hidden_rows = tokens * static_cast<double>(block.shape.hidden) * 2 * (8 + 3 * most_tp);
  const double intermediate_rows = tokens * static_cast<double>(block.shape.intermediate) * 2 * 6;
  const double weights = 3 * weight * 2 * compute.world->ranks_here(compute.world->size());
  const double needed = weights + gradients + hidden_rows + intermediate_rows;
  const double there = static_cast<double>(physical_memory_bytes());
  if (needed > there) {
    throw Error(ErrorCode::out_of_memory,
                fmt::format("out of memory: {} tokens at {}x{} on these layouts need about {:.3g} GiB, this "
                            "machine has {:.3g}",
                            block.tokens, block.shape.hidden, block.shape.intermediate, needed / (1 << 30),
                            there / (1 << 30)));
  }
}

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

}  // namespace

VerifyWork::VerifyWork(const VerifyFlags& flags, const Compute& compute)
    : task{layouts_of(flags.layouts),
           flags.layouts == "all",
           !flags.no_reference,
           flags.accuracy,
           {},
           0,
           nullptr},
      named(parse_shape(flags.shape)) {
  if (!task.all) {
    for (const Layout& layout : task.layouts) check_ranks(compute, layout);
  }
  block.tokens = parse_count("--tokens", flags.tokens);
  if (!flags.checkpoint.empty()) {
    weights = load_layer(flags.checkpoint, parse_count("--layer", flags.layer));
    named = {{}, weights->shape};
  }
  block.shape = named.shape;
  block.gradients = flags.gradient_dtype == "f32" ? DType::f32 : DType::bf16;
  if (!flags.recording.empty()) {
    recording.emplace(flags.recording, block.shape, block.gradients);
    task.recording = &*recording;
    block.tokens = recording->x().rows;
  }
  task.batches = batches_of(flags.batches, block.tokens);
  if (!flags.micro_batches.empty()) {
    task.micro_batches = parse_count("--micro-batches", flags.micro_batches);
    if (task.micro_batches < 1) fail_usage("--micro-batches 0: at least one");
  }
  check_sizes(block.shape, block.tokens);
  check_memory(compute, block, task.layouts);
}

void VerifyWork::make_inputs(const VerifyFlags& flags, int threads) {
  if (!weights) weights = seeded_weights(block.shape, flags.seed, threads);
  if (recording) {
    block.x = recording->x();
    block.dy = recording->dy();
  } else {
    x = seeded_tokens(SeededTensor::x, block.shape, block.tokens, flags.seed, threads);
    dy = seeded_tokens(SeededTensor::dy, block.shape, block.tokens, flags.seed, threads);
    block.x = std::as_const(x).view();
    block.dy = std::as_const(dy).view();
  }
  block.gate = weights->gate;
  block.up = weights->up;
  block.down = weights->down;
}

std::string VerifyWork::source(const VerifyFlags& flags) const {
  if (recording) return fmt::format("{}, x and dy of {}", weights->source, flags.recording);
  return named.name.empty() ? fmt::format("{}, x and dy of seed {}", weights->source, flags.seed)
                            : fmt::format("{}, {}", named.name, weights->source);
}

std::string VerifyWork::note() const {
  std::string text = weights->conversion;
  if (recording && !recording->conversion().empty())
    text += (text.empty() ? "" : ", ") + recording->conversion();
  return text;
}

int VerifyWork::steps() const {
  return static_cast<int>(task.layouts.size()) + 6 + task.reference + task.accuracy + !task.batches.empty() +
         (task.micro_batches > 0) + (task.recording != nullptr);
}

std::vector<AgreedField> VerifyWork::agreed(const VerifyFlags& flags, const Compute& compute) const {
  std::vector<AgreedField> fields = {
      {"the verb", "verify"},
      {"version", kVersion},
      {"shape", fmt::format("{}x{}", block.shape.hidden, block.shape.intermediate)},
      {"layer", flags.checkpoint.empty() ? "none" : flags.layer},
      {"tokens", fmt::format("{}", block.tokens)},
      {"seed", fmt::format("{}", flags.seed)},
      {"layouts", flags.layouts},
      {"gradient dtype", flags.gradient_dtype}};
  for (AgreedField& field : compute.agreed()) fields.push_back(std::move(field));
  return fields;
}

}  // namespace samebits::tools
