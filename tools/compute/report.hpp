// Reports in JSON (schema samebits.report/1): the head every verb shares, and the file, written beside and
// renamed.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "compute/compute_flags.hpp"
#include "samebits/contract.hpp"
#include "samebits/engine.hpp"

namespace samebits::tools {

using Json = nlohmann::ordered_json;

// Where --json goes. Tried before the work, so that an unwritable place is known before minutes are spent;
// nothing is there until commit(), whatever ends the process.
class ReportFile {
 public:
  explicit ReportFile(std::string path);  // empty: no report; "-": stdout

  bool wanted() const { return !path_.empty(); }
  bool takes_stdout() const { return path_ == "-"; }  // tables then stay away
  void commit(const Json& report) const;

 private:
  std::string path_;
};

void add_json_flag(CLI::App& verb, std::string& path);

// schema, command, version.
Json report_head(const std::string& command);
Json contract_json(const Contract& contract);
Json environment_json();                        // os, compiler, cpu, time, command line
Json environment_json(const Compute& compute);  // and engine, transport, mpi, isa, threads, device
Json device_json(const std::string& engine, const GpuDevice& device);
void add_peak_memory(Json& environment);

}  // namespace samebits::tools
