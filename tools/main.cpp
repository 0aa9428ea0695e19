// The command `samebits`: one verb a run, one line and an exit code when it cannot go on.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <iostream>
#include <span>
#include <string>

#include "io/message.hpp"
#include "samebits/version.hpp"
#include "shared/failure.hpp"
#include "verbs/verbs.hpp"

namespace {

using namespace samebits::tools;

constexpr const char* kExamples =
    "Examples:\n"
    "  samebits verify                                      the qwen3-8b block on every layout, CPU\n"
    "  samebits verify --checkpoint DIR --layer 0           the same on your own weights\n"
    "  samebits verify --contract hf-sm90-v1 --tokens 8 --layouts tp2,tp4+cp2 --json report.json\n"
    "  samebits run --checkpoint DIR --layer 0 --input x.safetensors --output y.safetensors\n"
    "  samebits compare y.safetensors other.safetensors\n"
    "  samebits bench --tokens 32,512 --direction all\n"
    "Exit codes: 0 all held; 1 a mismatch; 2 usage, bad input or a refusal; 3 the environment.";

// CLI11 says of an unknown verb only that a subcommand is required.
void check_verb(int argc, char** argv, std::span<const Verb> verbs) {
  if (argc > 1 && argv[1][0] == '-') return;
  const std::string given = argc > 1 ? argv[1] : "";
  std::string names;
  for (const Verb& verb : verbs) {
    if (verb.app->get_name() == given) return;
    names += (names.empty() ? "" : ", ") + verb.app->get_name();
  }
  const std::string problem =
      given.empty() ? "a verb is wanted" : "there is no verb '" + samebits::io::printable(given) + "'";
  fail_usage(problem + ": the verbs are " + names + " (samebits --help says more)");
}

int run(int argc, char** argv) {
  CLI::App command(
      "The Qwen3 feed-forward block with the same bits on every layout, batch, device and engine.",
      "samebits");
  command.set_version_flag("--version", std::string("samebits ") + samebits::kVersion);
  command.require_subcommand(1);
  command.footer(kExamples);
  const Verb verbs[] = {add_verify(command), add_bench(command),    add_run(command), add_compare(command),
                        add_digest(command), add_contract(command), add_info(command)};
  check_verb(argc, argv, verbs);
  try {
    command.parse(argc, argv);
  } catch (const CLI::ParseError& outcome) {
    if (outcome.get_exit_code() == 0)
      return command.exit(outcome, std::cout, std::cerr);  // --help, --version
    print_failure(std::string(outcome.what()) + " (samebits --help says more)");
    return kUsage;
  }
  for (const Verb& verb : verbs) {
    if (verb.app->parsed()) return verb.run();
  }
  return kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  return guarded([&] { return run(argc, argv); });
}
