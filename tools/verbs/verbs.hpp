// The verbs of the command. Each adds its subcommand and flags, and returns what runs once they are parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace samebits::tools {

struct Verb {
  CLI::App* app;
  std::function<int()> run;  // an exit code; throws what guarded() maps
};

Verb add_verify(CLI::App& command);
Verb add_bench(CLI::App& command);
Verb add_run(CLI::App& command);
Verb add_compare(CLI::App& command);
Verb add_digest(CLI::App& command);
Verb add_contract(CLI::App& command);
Verb add_info(CLI::App& command);

}  // namespace samebits::tools
