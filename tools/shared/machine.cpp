#include "shared/machine.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <thread>

namespace samebits::tools {
namespace {

// The value of the first line of `path` that begins with `key`, past `separator`; empty when there is none.
std::string value_in(const char* path, const std::string& key, char separator) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(key, 0) != 0) continue;
    const std::size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string value = line.substr(at + 1);
    const auto junk = [](char c) { return c == ' ' || c == '\t' || c == '"'; };
    while (!value.empty() && junk(value.front())) value.erase(value.begin());
    while (!value.empty() && junk(value.back())) value.pop_back();
    return value;
  }
  return {};
}

}  // namespace

int available_threads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::string cpu_model() {
  std::string model = value_in("/proc/cpuinfo", "model name", ':');
  utsname names{};
  if (model.empty() && uname(&names) == 0) model = names.machine;
  return model.empty() ? "unknown" : model;
}

std::string os_name() {
  utsname names{};
  uname(&names);
  const std::string kernel = std::string(names.sysname) + " " + names.release + " " + names.machine;
  const std::string distribution = value_in("/etc/os-release", "PRETTY_NAME", '=');
  return distribution.empty() ? kernel : distribution + ", " + kernel;
}

std::string host_name() {
  utsname names{};
  return uname(&names) == 0 ? names.nodename : "unknown";
}

std::string compiler_name() {
#if defined(__clang__)
  return std::string("clang ") + __clang_version__;
#else
  return std::string("gcc ") + __VERSION__;
#endif
}

std::string utc_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, size};
}

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

std::int64_t physical_memory_bytes() {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace samebits::tools
