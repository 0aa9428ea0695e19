// samebits info: engines, devices, transports and library versions found on this machine.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compute/report.hpp"
#include "samebits/engine.hpp"
#include "samebits/error.hpp"
#include "samebits/transport.hpp"
#include "samebits/version.hpp"
#include "shared/machine.hpp"
#include "shared/openblas.hpp"
#include "shared/table.hpp"
#include "verbs/verbs.hpp"

namespace samebits::tools {
namespace {

// The instruction sets that the cpu engine can be made with here.
std::vector<std::string> cpu_isas() {
  std::vector<std::string> names;
  for (const auto& [isa, name] :
       {std::pair{Isa::plain, "plain"}, {Isa::avx2, "avx2"}, {Isa::avx512, "avx512"}}) {
    try {
      make_cpu_engine({.threads = 1, .isa = isa});
      names.emplace_back(name);
    } catch (const Error&) {  // refused: this processor lacks it
    }
  }
  return names;
}

std::string dotted(unsigned value, unsigned base) {
  return fmt::format("{}.{}.{}", value / (base * base), value / base % base, value % base);
}

Json libraries() {
  Json out = {{"fmt", dotted(FMT_VERSION, 100)},
              {"xxhash", dotted(XXH_versionNumber(), 100)},
              {"nlohmann_json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                                            NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
              {"cli11", CLI11_VERSION}};
  const auto openblas = OpenBlas::load();
  out["openblas"] =
      openblas ? Json{{"config", openblas->config()}, {"core", openblas->core()}} : Json(nullptr);
  return out;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// "built, runtime 13.0, driver 13.0", and why it cannot be used.
std::string gpu_text(const GpuStatus& gpu) {
  if (!gpu.built) return "not built";
  return fmt::format("built, runtime {}, driver {}{}", gpu.runtime.empty() ? "unknown" : gpu.runtime,
                     gpu.driver.empty() ? "none" : gpu.driver, gpu.problem.empty() ? "" : ": " + gpu.problem);
}

std::string nccl_text(const NcclStatus& nccl, bool gpus) {
  if (!nccl.found) return nccl.problem;
  return fmt::format("{}, version {}{}", nccl.library, nccl.version,
                     gpus ? "" : "; not built: it moves memory of GPUs");
}

Json gpu_json(const GpuStatus& gpu) {
  if (!gpu.built) return nullptr;
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {
      {"runtime", or_null(gpu.runtime)}, {"driver", or_null(gpu.driver)}, {"problem", or_null(gpu.problem)}};
}

int run_info(const std::string& json_path) {
  ReportFile report_file(json_path);
  const std::vector<std::string> isas = cpu_isas();
  const GpuStatus cuda = cuda_status(), hip = hip_status();
  const bool gpus = cuda.built || hip.built;
  const MpiStatus mpi = mpi_status();
  const NcclStatus nccl = nccl_status();
  const Json found = libraries();
  if (!report_file.takes_stdout()) {
    Table table({"samebits", kVersion}, 2);
    table.add({"compiler", compiler_name()});
    table.add({"system", os_name()});
    table.add({"processor", fmt::format("{}, {} threads", cpu_model(), available_threads())});
    table.add({"engine cpu", fmt::format("{} (best: {})", joined(isas), best_isa_name())});
    for (const auto& [engine, gpu] : {std::pair{"cuda", &cuda}, {"hip", &hip}}) {
      table.add({fmt::format("engine {}", engine), gpu_text(*gpu)});
      for (const GpuDevice& device : gpu->devices) {
        table.add({fmt::format("device {}", device.index),
                   fmt::format("{}, {}, {:.1f} GiB", device.name, device.kind,
                               static_cast<double>(device.memory_bytes) / (1 << 30))});
      }
    }
    table.add({"transport local", "built: ranks are threads of one process"});
    table.add({"transport callbacks", "built: for host programs, C++ or Python"});
    table.add({"transport mpi", mpi.built ? fmt::format("built: {}, a process a rank", mpi.library)
                                          : std::string("not built")});
    table.add({"transport nccl", nccl_text(nccl, gpus)});
    for (const auto& [name, value] : found.items()) {
      if (value.is_string()) table.add({name, value.get<std::string>()});
    }
    const Json& openblas = found["openblas"];
    table.add({"openblas", openblas.is_null()
                               ? std::string("not found (libopenblas.so.0)")
                               : fmt::format("{}; core {}", openblas["config"].get<std::string>(),
                                             openblas["core"].get<std::string>())});
    fmt::print("{}", table.text());
  }
  Json report = report_head("info");
  report["environment"] = environment_json();
  report["environment"]["threads"] = available_threads();
  report["engines"] = {
      {"cpu", {{"isa", isas}, {"best", best_isa_name()}}}, {"cuda", gpu_json(cuda)}, {"hip", gpu_json(hip)}};
  report["devices"] = Json::array();
  for (const GpuDevice& device : cuda.devices) report["devices"].push_back(device_json("cuda", device));
  for (const GpuDevice& device : hip.devices) report["devices"].push_back(device_json("hip", device));
  report["transports"] = {
      {"local", true}, {"callbacks", true}, {"mpi", mpi.built}, {"nccl", nccl.found && gpus}};
  report["libraries"] = found;
  report["libraries"]["mpi"] = mpi.built ? Json(mpi.library) : Json(nullptr);
  report["libraries"]["nccl"] = nccl.found ? Json(nccl.version) : Json(nullptr);
  report_file.commit(report);
  return 0;
}

}  // namespace

Verb add_info(CLI::App& command) {
  CLI::App* verb =
      command.add_subcommand("info", "Engines, devices, transports and library versions of this machine");
  const auto json = std::make_shared<std::string>();
  add_json_flag(*verb, *json);
  return {verb, [json] { return run_info(*json); }};
}

}  // namespace samebits::tools
