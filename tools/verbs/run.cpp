// samebits run: the block of a checkpoint's layer on a person's own tensors.
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "block/layout_run.hpp"
#include "block/source.hpp"
#include "io/message.hpp"
#include "io/output_file.hpp"
#include "samebits/digest.hpp"
#include "samebits/safetensors.hpp"
#include "shared/failure.hpp"
#include "shared/report.hpp"
#include "shared/shapes.hpp"
#include "shared/table.hpp"
#include "shared/tensor_file.hpp"
#include "shared/version.hpp"
#include "verbs/verbs.hpp"

namespace samebits::tools {
namespace {

struct Flags {
  std::string checkpoint, layer, input, output, grad, layout = "tp1", gradient_dtype = "bf16", json;
  ComputeFlags compute;
};

// Known before the work: whether the output can be written. What is tried leaves nothing behind.
void check_writable(const std::string& path) { const io::OutputFile tried(path); }

void print_result(const BlockCase& block, const std::string& source, const std::vector<std::string>& notes,
                  const Compute& compute, const Layout& layout, const Table& table, const std::string& output) {
  fmt::print("block      {}x{}, {} tokens: {}\n", block.shape.hidden, block.shape.intermediate, block.tokens, source);
  for (const std::string& note : notes) fmt::print("           {}\n", note);
  fmt::print("contract   {}, fingerprint {}\n", name_of(compute.contract), fingerprint(compute.contract));
  fmt::print("engine     {} ({}, {} threads), layout {}\n\n{}\nwritten    {}\n", compute.engine, compute.isa_name,
             compute.threads, name_of(layout), table.text(), io::printable(output));
}

int run_run(const Flags& flags) {
  const auto begun = std::chrono::steady_clock::now();
  const Compute compute(flags.compute);
  const Layout layout = parse_layout(flags.layout);
  const bool training = !flags.grad.empty();
  const LayerWeights weights = load_layer(flags.checkpoint, parse_count("--layer", flags.layer));
  const SafetensorsFile input = SafetensorsFile::open(flags.input);
  const TokensFromFile x = read_tokens(input, "x", weights.shape.hidden);
  std::optional<TokensFromFile> dy;
  if (training) {
    dy = read_tokens(SafetensorsFile::open(flags.grad), "dy", weights.shape.hidden);
    if (dy->matrix.view.rows != x.matrix.view.rows) {
      fail_usage(fmt::format("{}: 'dy' has {} tokens, 'x' in {} has {}", io::printable(flags.grad), dy->matrix.view.rows,
                             io::printable(flags.input), x.matrix.view.rows));
    }
  }
  check_writable(flags.output);
  ReportFile report_file(flags.json);

  BlockCase block;
  block.shape = weights.shape;
  block.tokens = x.matrix.view.rows;
  block.x = x.matrix.view;
  if (dy) block.dy = dy->matrix.view;
  block.gate = weights.gate;
  block.up = weights.up;
  block.down = weights.down;
  block.gradients = flags.gradient_dtype == "f32" ? DType::f32 : DType::bf16;
  check_sizes(block.shape, block.tokens);

  BlockTensors made(block.shape, block.tokens, block.gradients, training);
  const LayoutOutcome outcome =
      run_layout(compute, block, {.layout = layout, .inference = !training, .training = training}, made);

  const std::vector<std::pair<const char*, BlockTensor>> wanted =
      training ? std::vector<std::pair<const char*, BlockTensor>>{{"y", kTrainingOutput}, {"dx", kHiddenGradient}, {"d_gate", kGateGradient},
                                                                  {"d_up", kUpGradient}, {"d_down", kDownGradient}}
               : std::vector<std::pair<const char*, BlockTensor>>{{"y", kOutput}};
  std::vector<NamedTensor> tensors;
  Table table({"tensor", "kind", "digest"}, 3);
  Json tensors_json = Json::array();
  for (const auto& [name, which] : wanted) {
    const ConstView view = std::as_const(made).view(which);
    const std::string text = digest(view);
    tensors.push_back({name, view});
    table.add({name, fmt::format("{}:{}x{}", name_of(view.dtype), view.rows, view.cols), text});
    tensors_json.push_back({{"name", name}, {"dtype", name_of(view.dtype)}, {"shape", {view.rows, view.cols}}, {"digest", text}});
  }

  std::vector<std::string> notes;
  for (const std::string& note : {weights.conversion, x.conversion, dy ? dy->conversion : std::string{}}) {
    if (!note.empty()) notes.push_back(note);
  }
  std::map<std::string, std::string> metadata = {
      {"samebits_version", kVersion}, {"source", io::printable(weights.source)}, {"layer", flags.layer}, {"layout", name_of(layout)}};
  put_contract(metadata, compute.contract);
  for (std::size_t i = 0; i < notes.size(); ++i) metadata[fmt::format("note_{}", i)] = notes[i];
  write_safetensors(flags.output, tensors, metadata);

  if (!report_file.takes_stdout()) print_result(block, weights.source, notes, compute, layout, table, flags.output);
  Json report = report_head("run");
  report["contract"] = contract_json(compute.contract);
  report["environment"] = environment_json(compute);
  report["environment"]["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  add_peak_memory(report["environment"]);
  report["shape"] = {{"tokens", block.tokens}, {"hidden", block.shape.hidden}, {"intermediate", block.shape.intermediate},
                     {"source", weights.source}};
  report["layout"] = {{"name", name_of(layout)}, {"tp", layout.tp}, {"cp", layout.cp}, {"sp", layout.sequence_parallel},
                      {"seconds", outcome.seconds}};
  report["input"] = flags.input;
  report["output"] = flags.output;
  report["notes"] = notes;
  report["tensors"] = tensors_json;
  report["ok"] = true;
  report_file.commit(report);
  return kHeld;
}

}  // namespace

Verb add_run(CLI::App& command) {
  CLI::App* verb = command.add_subcommand("run", "The block of a checkpoint's layer on your own tensors");
  const auto flags = std::make_shared<Flags>();
  verb->add_option("--checkpoint", flags->checkpoint, "Hugging Face folder")->required()->type_name("DIR");
  verb->add_option("--layer", flags->layer, "of the checkpoint")->required()->type_name("N");
  verb->add_option("--input", flags->input, "safetensors file with `x`, [tokens, hidden]")->required()->type_name("FILE");
  verb->add_option("--output", flags->output, "safetensors file to write: y, and with --grad dx, d_gate, d_up, d_down")
      ->required()
      ->type_name("FILE");
  verb->add_option("--grad", flags->grad, "safetensors file with `dy`: run the backward pass too")->type_name("FILE");
  verb->add_option("--layouts", flags->layout, "one layout to compute on")->capture_default_str();
  verb->add_option("--gradient-dtype", flags->gradient_dtype, "of the weight gradients")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->capture_default_str();
  flags->compute.add_to(*verb);
  add_json_flag(*verb, flags->json);
  verb->footer(
      "Example:\n"
      "  samebits run --checkpoint Qwen3-8B --layer 0 --input x.safetensors --output y.safetensors --grad dy.safetensors");
  return {verb, [flags] { return run_run(*flags); }};
}

}  // namespace samebits::tools
