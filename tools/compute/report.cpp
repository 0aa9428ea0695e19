#include "compute/report.hpp"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>

#include "io/output_file.hpp"
#include "samebits/transport.hpp"
#include "samebits/version.hpp"
#include "shared/machine.hpp"

namespace samebits::tools {
namespace {

// The command line as it was typed, up to quoting.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line{std::istreambuf_iterator<char>(file), {}};
  while (!line.empty() && line.back() == '\0') line.pop_back();
  for (char& c : line) {
    if (c == '\0') c = ' ';
  }
  return line;
}

}  // namespace

ReportFile::ReportFile(std::string path) : path_(std::move(path)) {
  if (!wanted() || takes_stdout()) return;
  const io::OutputFile tried(path_);  // leaves nothing behind
}

void ReportFile::commit(const Json& report) const {
  if (!wanted()) return;
  // File names need not be UTF-8.
  const std::string text = report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (takes_stdout()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  io::write_text_file(path_, text);
}

void add_json_flag(CLI::App& verb, std::string& path) {
  verb.add_option("--json", path, "write the report to this file; - is stdout, without tables")
      ->type_name("FILE");
}

Json report_head(const std::string& command) {
  return {{"schema", "samebits.report/1"}, {"command", command}, {"version", kVersion}};
}

Json contract_json(const Contract& contract) {
  return {{"name", name_of(contract)},
          {"canonical", canonical(contract)},
          {"fingerprint", fingerprint(contract)}};
}

Json device_json(const std::string& engine, const GpuDevice& device) {
  return {{"engine", engine},
          {"index", device.index},
          {"name", device.name},
          {"compute_capability", std::to_string(device.major) + "." + std::to_string(device.minor)},
          {"kind", device.kind},
          {"memory_bytes", device.memory_bytes}};
}

Json environment_json() {
  return {{"os", os_name()},
          {"compiler", compiler_name()},
          {"cpu", cpu_model()},
          {"time", utc_time()},
          {"command_line", command_line()}};
}

Json environment_json(const Compute& compute) {
  Json environment = environment_json();
  environment["engine"] = compute.engine;
  environment["transport"] = compute.transport;
  if (compute.has_processes())
    environment["mpi"] = {{"library", compute.world->library()}, {"processes", compute.world->size()}};
  if (compute.nccl) {
    const NcclStatus nccl = nccl_status();
    environment["nccl"] = {{"library", nccl.library}, {"version", nccl.version}};
  }
  environment["isa"] = compute.device ? Json(nullptr) : Json(compute.isa_name);
  environment["threads"] = compute.threads;
  environment["device"] = nullptr;
  if (compute.device) {
    environment["device"] = device_json(compute.engine, *compute.device);
    const GpuStatus status = compute.engine == "hip" ? hip_status() : cuda_status();
    environment["device"]["driver"] = status.driver;
    environment["device"]["runtime"] = status.runtime;
  }
  return environment;
}

void add_peak_memory(Json& environment) { environment["peak_rss_bytes"] = peak_rss_bytes(); }

}  // namespace samebits::tools
