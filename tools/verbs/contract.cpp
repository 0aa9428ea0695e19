// samebits contract: the resolved tree of every axis, the legal shards, the canonical string and the
// fingerprint.
#include "samebits/contract.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdio>
#include <memory>

#include "compute/report.hpp"
#include "numerics/contract_text.hpp"
#include "shared/shapes.hpp"
#include "shared/table.hpp"
#include "shared/tree_summary.hpp"
#include "verbs/verbs.hpp"

namespace samebits::tools {
namespace {

constexpr std::int64_t kMostDegree = 4096;  // of a layout

struct Flags {
  std::string name, shape = "qwen3-8b", tokens = "32", json;
};

struct Axis {
  const char* name;
  AxisRule rule;
  TreeSummary tree;
  std::vector<std::int64_t> equal_cuts;
};

Axis axis_of(const char* name, const Contract& contract, const AxisRule& rule, std::int64_t length) {
  const numerics::AxisTree tree = numerics::axis_tree(contract, rule, length);
  return {name, rule, summarise(tree), equal_cut_degrees(tree, kMostDegree)};
}

std::string text_of(const AxisRule& rule) {
  return fmt::format("{}:{}", numerics::to_text(rule.rule), rule.value);
}

// "1536", "24 (x 512)", or the ends of a list that is long.
std::string lengths_text(const TreeSummary& tree) {
  if (tree.leaves_of_length.empty()) return "-";
  if (tree.leaves_of_length.size() == 1) return fmt::format("{}", tree.leaves_of_length.begin()->first);
  if (tree.leaves_of_length.size() > 3) {
    return fmt::format("{} to {}", tree.leaves_of_length.begin()->first,
                       tree.leaves_of_length.rbegin()->first);
  }
  std::string text;
  for (const auto& [length, count] : tree.leaves_of_length)
    text += fmt::format("{}{}x{}", text.empty() ? "" : " ", count, length);
  return text;
}

Json axis_json(const Axis& axis, std::int64_t length) {
  Json lengths = Json::array();
  for (const auto& [leaf, count] : axis.tree.leaves_of_length)
    lengths.push_back({{"length", leaf}, {"count", count}});
  return {{"axis", axis.name},
          {"rule", text_of(axis.rule)},
          {"length", length},
          {"leaves", axis.tree.leaves},
          {"leaf_lengths", lengths},
          {"depth", axis.tree.depth},
          {"equal_cuts", axis.equal_cuts}};
}

int list_presets(ReportFile& report_file) {
  Json presets = Json::array();
  Table table({"preset", "fingerprint", "canonical string"}, 3);
  for (const std::string_view name : contract_presets()) {
    const Contract contract = parse_contract(name);
    table.add({std::string(name), fingerprint(contract), canonical(contract)});
    presets.push_back(contract_json(contract));
  }
  if (!report_file.takes_stdout()) fmt::print("{}", table.text());
  Json report = report_head("contract");
  report["presets"] = presets;
  report["environment"] = environment_json();
  report_file.commit(report);
  return 0;
}

int show_contract(const Flags& flags, ReportFile& report_file) {
  const Contract contract = parse_contract(flags.name);
  const NamedShape named = parse_shape(flags.shape);
  const Shape shape = named.shape;
  const std::int64_t tokens = parse_count("--tokens", flags.tokens);
  check_sizes(shape, tokens);
  const std::array axes = {axis_of("hidden", contract, contract.hidden, shape.hidden),
                           axis_of("intermediate", contract, contract.intermediate, shape.intermediate),
                           axis_of("tokens", contract, contract.tokens, tokens)};
  const std::array lengths = {shape.hidden, shape.intermediate, tokens};
  const Axis &intermediate = axes[1], &token_axis = axes[2];
  const std::int64_t most_columns = std::min(intermediate.tree.leaves, kMostDegree);

  Table table({"axis", "rule", "length", "leaves", "leaf lengths", "depth"}, 2);
  Json axes_json = Json::array();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    table.add({axis.name, text_of(axis.rule), fmt::format("{}", lengths[i]),
               fmt::format("{}", axis.tree.leaves), lengths_text(axis.tree),
               fmt::format("{}", axis.tree.depth)});
    axes_json.push_back(axis_json(axis, lengths[i]));
  }
  if (!report_file.takes_stdout()) {
    fmt::print("contract     {}\ncanonical    {}\nfingerprint  {}\nshape        {}: {}x{}, {} tokens\n\n{}\n",
               name_of(contract), canonical(contract), fingerprint(contract), named.name, shape.hidden,
               shape.intermediate, tokens, table.text());
    fmt::print("--down columns   TP {} in equal cuts; every TP from 1 to {} at leaf boundaries\n",
               fmt::join(intermediate.equal_cuts, " "), most_columns);
    fmt::print("--down rows      every TP degree\n");
    fmt::print("gradient covers  CP {} in equal cuts of the tokens; elsewhere tokens are gathered\n",
               tokens == 0 ? std::string("-") : fmt::format("{}", fmt::join(token_axis.equal_cuts, " ")));
  }

  Json report = report_head("contract");
  report["contract"] = contract_json(contract);
  report["environment"] = environment_json();
  report["shape"] = {{"tokens", tokens},
                     {"hidden", shape.hidden},
                     {"intermediate", shape.intermediate},
                     {"source", named.name}};
  report["axes"] = axes_json;
  report["down_columns"] = {{"equal", intermediate.equal_cuts}, {"most", most_columns}};
  report["down_rows"] = "any";
  report["gradient_covers"] = {{"equal", token_axis.equal_cuts}};
  report_file.commit(report);
  return 0;
}

}  // namespace

Verb add_contract(CLI::App& command) {
  CLI::App* verb =
      command.add_subcommand("contract", "The resolved tree, legal shards, canonical string and fingerprint");
  const auto flags = std::make_shared<Flags>();
  verb->add_option("NAME", flags->name,
                   "preset, preset with fields, or canonical string; without it: the presets");
  verb->add_option("--shape", flags->shape, "a Qwen3 size or HxI")->capture_default_str();
  verb->add_option("--tokens", flags->tokens, "length of the token axis")->capture_default_str();
  add_json_flag(*verb, flags->json);
  verb->footer("Example:\n  samebits contract sm90-v1,I=halve:4 --shape qwen3-4b");
  return {verb, [flags] {
            ReportFile report_file(flags->json);
            return flags->name.empty() ? list_presets(report_file) : show_contract(*flags, report_file);
          }};
}

}  // namespace samebits::tools
