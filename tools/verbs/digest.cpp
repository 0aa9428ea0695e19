// samebits digest: one 128-bit digest a tensor, the same on every machine.
#include "samebits/digest.hpp"

#include <fmt/format.h>

#include <memory>

#include "compute/report.hpp"
#include "io/message.hpp"
#include "samebits/safetensors.hpp"
#include "shared/table.hpp"
#include "shared/tensor_file.hpp"
#include "verbs/verbs.hpp"

namespace samebits::tools {
namespace {

struct Flags {
  std::string file, json;
};

int run_digest(const Flags& flags) {
  ReportFile report_file(flags.json);
  const auto file = SafetensorsFile::open(flags.file);
  const auto contract = contract_of(file);
  Table table({"tensor", "dtype", "shape", "digest"}, 4);
  Json tensors = Json::array();
  for (const SafetensorsTensor& tensor : file.tensors()) {
    const std::string text = digest(tensor);
    table.add({io::printable(tensor.name), dtype_text(tensor), shape_text(tensor), text});
    tensors.push_back(
        {{"name", tensor.name}, {"dtype", dtype_text(tensor)}, {"shape", tensor.shape}, {"digest", text}});
  }
  if (!report_file.takes_stdout()) {
    if (contract) fmt::print("contract {}\n\n", io::printable(*contract));
    fmt::print("{}", table.text());
  }
  Json report = report_head("digest");
  report["file"] = {{"path", flags.file}, {"contract", contract ? Json(*contract) : Json(nullptr)}};
  report["environment"] = environment_json();
  report["tensors"] = tensors;
  report_file.commit(report);
  return 0;
}

}  // namespace

Verb add_digest(CLI::App& command) {
  CLI::App* verb = command.add_subcommand("digest", "One 128-bit digest a tensor of a safetensors file");
  const auto flags = std::make_shared<Flags>();
  verb->add_option("FILE", flags->file, "safetensors file")->required();
  add_json_flag(*verb, flags->json);
  return {verb, [flags] { return run_digest(*flags); }};
}

}  // namespace samebits::tools
