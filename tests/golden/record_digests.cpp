// Records what a GPU computes, for device_digests_test.cpp to hold every engine to.
//
//   build/tests/golden/record_digests tests/golden/h200_digests.txt
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <string>

#include "golden/device_digests.hpp"
#include "samebits/version.hpp"
#include "support/engines.hpp"

namespace samebits::test {
namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

// "NVRM version: ... 580.95.05 ...", where the kernel shows it.
std::string kernel_driver() {
  std::ifstream in("/proc/driver/nvidia/version");
  std::string line;
  std::getline(in, line);
  return line.empty() ? "not shown by this kernel" : line;
}

int record(const std::string& path) {
  if (!cuda_problem().empty()) {
    fmt::print(stderr, "record_digests: no usable CUDA device: {}\n", cuda_problem());
    return 3;
  }
  const CudaStatus status = cuda_status();
  Recording recording;
  recording.made_on = fmt::format(
      "Seeded tensors of seed 0; contract hidden intermediate tokens tensor digest.\n"
      "engine: {}\ndriver: CUDA {}; {}\nruntime: {}\nsamebits: {}\ndate: {}\n",
      cuda_engine()->name(), status.driver, kernel_driver(), status.runtime, kVersion, today());
  recording.cases = cases_to_record();
  for (const DigestCase& one : recording.cases) recording.digests.push_back(digests_of(cuda_engine(), one));
  write_recording(path, recording);
  fmt::print("{}{} blocks recorded in {}\n", recording.made_on, recording.cases.size(), path);
  return 0;
}

}  // namespace
}  // namespace samebits::test

int main(int count, char** arguments) {
  if (count != 2) {
    fmt::print(stderr, "usage: record_digests FILE\n");
    return 2;
  }
  try {
    return samebits::test::record(arguments[1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "record_digests: {}\n", error.what());
    return 3;
  }
}
