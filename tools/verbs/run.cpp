// samebits run: the block of a checkpoint's layer on a person's own tensors.
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "block/layout_run.hpp"
#include "block/source.hpp"
#include "compute/report.hpp"
#include "io/message.hpp"
#include "io/output_file.hpp"
#include "samebits/digest.hpp"
#include "samebits/safetensors.hpp"
#include "samebits/version.hpp"
#include "shared/failure.hpp"
#include "shared/shapes.hpp"
#include "shared/table.hpp"
#include "shared/tensor_file.hpp"
#include "verbs/verbs.hpp"

namespace samebits::tools {
namespace {

struct Flags {
  std::string checkpoint, layer, input, output, grad, layout = "tp1", gradient_dtype = "bf16", json;
  ComputeFlags compute;
};

// What the verb works on, whole and checked.
struct RunInputs {
  LayerWeights weights;
  TokensFromFile x;
  std::optional<TokensFromFile> dy;
  BlockCase block;
  std::vector<std::string> notes;  // what was rounded
};

RunInputs read_inputs(const Flags& flags) {
  RunInputs in;
  in.weights = load_layer(flags.checkpoint, parse_count("--layer", flags.layer));
  in.x = read_tokens(SafetensorsFile::open(flags.input), "x", in.weights.shape.hidden);
  const ConstView& x = in.x.matrix.view;
  if (!flags.grad.empty()) {
    in.dy = read_tokens(SafetensorsFile::open(flags.grad), "dy", in.weights.shape.hidden);
    const ConstView& dy = in.dy->matrix.view;
    if (dy.rows != x.rows) {
      fail_usage(fmt::format("{}: 'dy' has {} tokens, 'x' in {} has {}", io::printable(flags.grad), dy.rows,
                             io::printable(flags.input), x.rows));
    }
    in.block.dy = dy;
  }
  in.block.shape = in.weights.shape;
  in.block.tokens = x.rows;
  in.block.x = x;
  in.block.gate = in.weights.gate;
  in.block.up = in.weights.up;
  in.block.down = in.weights.down;
  in.block.gradients = flags.gradient_dtype == "f32" ? DType::f32 : DType::bf16;
  check_sizes(in.block.shape, in.block.tokens);
  for (const std::string& note :
       {in.weights.conversion, in.x.conversion, in.dy ? in.dy->conversion : std::string{}}) {
    if (!note.empty()) in.notes.push_back(note);
  }
  return in;
}

// Known before the work: whether the output can be written. What is tried leaves nothing behind.
void check_writable(const std::string& path) { const io::OutputFile tried(path); }

// y, and with backward the gradients, as they stand in the output file.
std::vector<NamedTensor> tensors_of(const BlockTensors& made, bool training) {
  if (!training) return {{"y", made.view(kOutput)}};
  return {{"y", made.view(kTrainingOutput)},
          {"dx", made.view(kHiddenGradient)},
          {"d_gate", made.view(kGateGradient)},
          {"d_up", made.view(kUpGradient)},
          {"d_down", made.view(kDownGradient)}};
}

std::map<std::string, std::string> metadata_of(const Flags& flags, const RunInputs& in,
                                               const Contract& contract) {
  std::map<std::string, std::string> metadata = {{"samebits_version", kVersion},
                                                 {"source", io::printable(in.weights.source)},
                                                 {"layer", flags.layer},
                                                 {"layout", flags.layout}};
  put_contract(metadata, contract);
  for (std::size_t i = 0; i < in.notes.size(); ++i) metadata[fmt::format("note_{}", i)] = in.notes[i];
  return metadata;
}

void print_result(const Flags& flags, const RunInputs& in, const Compute& compute, const Json& tensors) {
  Table table({"tensor", "dtype", "shape", "digest"}, 4);
  for (const Json& tensor : tensors) {
    table.add(
        {tensor["name"], tensor["dtype"],
         fmt::format("{}x{}", tensor["shape"][0].get<std::int64_t>(), tensor["shape"][1].get<std::int64_t>()),
         tensor["digest"]});
  }
  fmt::print("block      {}x{}, {} tokens: {}\n", in.block.shape.hidden, in.block.shape.intermediate,
             in.block.tokens, io::printable(in.weights.source));
  for (const std::string& note : in.notes) fmt::print("           {}\n", note);
  fmt::print("contract   {}, fingerprint {}\n", name_of(compute.contract), fingerprint(compute.contract));
  fmt::print("engine     {}, layout {}\n\n{}\nwritten    {}\n", compute.engine_text(), flags.layout,
             table.text(), io::printable(flags.output));
}

std::vector<AgreedField> agreed_fields(const Flags& flags, const Compute& compute, const RunInputs& in,
                                       const Layout& layout) {
  std::vector<AgreedField> fields = {
      {"the verb", "run"},
      {"version", kVersion},
      {"shape", fmt::format("{}x{}", in.block.shape.hidden, in.block.shape.intermediate)},
      {"layer", flags.layer},
      {"tokens", fmt::format("{}", in.block.tokens)},
      {"layout", name_of(layout)},
      {"direction", in.dy ? "forward and backward" : "forward"},
      {"gradient dtype", flags.gradient_dtype}};
  for (AgreedField& field : compute.agreed()) fields.push_back(std::move(field));
  return fields;
}

int run(const Flags& flags, const Compute& compute) {
  const auto begun = std::chrono::steady_clock::now();
  const World& world = *compute.world;
  Layout layout;
  RunInputs in;
  std::optional<ReportFile> report_file;
  world.together([&] {
    layout = parse_layout(flags.layout);
    check_ranks(compute, layout);
    in = read_inputs(flags);
    if (world.first()) check_writable(flags.output);
    report_file.emplace(world.first() ? flags.json : std::string{});
  });
  agree(world, agreed_fields(flags, compute, in, layout));

  const bool training = in.dy.has_value();
  const LayoutRun wanted{.layout = layout, .inference = !training, .training = training};
  std::optional<BlockTensors> made;
  LayoutOutcome outcome;
  try {
    if (!world.first()) {
      join_layout(compute, in.block, wanted);
      return kHeld;  // what rank 0 returns counts
    }
    made.emplace(in.block.shape, in.block.tokens, in.block.gradients, training);
    outcome = run_layout(compute, in.block, wanted, *made);
  } catch (const LayoutRefused& refusal) {
    refuse_by_name(layout, refusal);
  }
  const std::vector<NamedTensor> tensors = tensors_of(*made, training);
  write_safetensors(flags.output, tensors, metadata_of(flags, in, compute.contract));

  Json tensors_json = Json::array();
  for (const NamedTensor& tensor : tensors) {
    tensors_json.push_back({{"name", tensor.name},
                            {"dtype", name_of(tensor.view.dtype)},
                            {"shape", {tensor.view.rows, tensor.view.cols}},
                            {"digest", digest(tensor.view)}});
  }
  if (!report_file->takes_stdout()) print_result(flags, in, compute, tensors_json);
  Json report = report_head("run");
  report["contract"] = contract_json(compute.contract);
  report["environment"] = environment_json(compute);
  report["environment"]["seconds"] =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  add_peak_memory(report["environment"]);
  report["shape"] = {{"tokens", in.block.tokens},
                     {"hidden", in.block.shape.hidden},
                     {"intermediate", in.block.shape.intermediate},
                     {"source", in.weights.source}};
  report["layout"] = {{"name", name_of(layout)},
                      {"tp", layout.tp},
                      {"cp", layout.cp},
                      {"sp", layout.sequence_parallel},
                      {"seconds", outcome.seconds}};
  report["input"] = flags.input;
  report["output"] = flags.output;
  report["notes"] = in.notes;
  report["tensors"] = tensors_json;
  report["ok"] = true;
  report_file->commit(report);
  return kHeld;
}

}  // namespace

Verb add_run(CLI::App& command) {
  CLI::App* verb = command.add_subcommand("run", "The block of a checkpoint's layer on your own tensors");
  const auto flags = std::make_shared<Flags>();
  verb->add_option("--checkpoint", flags->checkpoint, "Hugging Face folder")->required()->type_name("DIR");
  verb->add_option("--layer", flags->layer, "of the checkpoint")->required()->type_name("N");
  verb->add_option("--input", flags->input, "safetensors file with `x`, [tokens, hidden]")
      ->required()
      ->type_name("FILE");
  verb->add_option("--output", flags->output,
                   "safetensors file to write: y, and with --grad dx, d_gate, d_up, d_down")
      ->required()
      ->type_name("FILE");
  verb->add_option("--grad", flags->grad, "safetensors file with `dy`: run the backward pass too")
      ->type_name("FILE");
  verb->add_option("--layouts", flags->layout, "one layout to compute on")->capture_default_str();
  verb->add_option("--gradient-dtype", flags->gradient_dtype, "of the weight gradients")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->capture_default_str();
  flags->compute.add_to(*verb);
  add_json_flag(*verb, flags->json);
  verb->footer(
      "Example:\n"
      "  samebits run --checkpoint Qwen3-8B --layer 0 --input x.safetensors --output y.safetensors --grad "
      "dy.safetensors\n"
      "  mpirun -np 8 samebits run --transport mpi --layouts tp4+cp2 ...");
  return {verb, [flags] {
            return run_verb(flags->compute, [&](const Compute& compute) { return run(*flags, compute); });
          }};
}

}  // namespace samebits::tools
