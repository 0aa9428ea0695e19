// The bench of the cuda engine in a build without it: it says so.
#include "bench/device_bench.hpp"
#include "bench/device_layouts.hpp"
#include "shared/failure.hpp"

namespace samebits::tools {
namespace {

[[noreturn]] void fail() {
  fail_environment("this build cannot time the cuda engine: it wants nvcc and cublasLt.h where it is made");
}

}  // namespace

std::unique_ptr<DeviceBench> make_cuda_bench(const Compute&, const BlockCase&, const DeviceBenchOptions&) {
  fail();
}

std::unique_ptr<DeviceLayouts> make_cuda_layouts(const Compute&, bool) { fail(); }

}  // namespace samebits::tools
