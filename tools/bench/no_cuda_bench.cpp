// The bench of the cuda engine in a build without it: it says so.
#include "bench/device_bench.hpp"
#include "shared/failure.hpp"

namespace samebits::tools {

std::unique_ptr<DeviceBench> make_cuda_bench(const Compute&, const BlockCase&, const DeviceBenchOptions&) {
  fail_environment("this build cannot time the cuda engine: it wants nvcc and cublasLt.h where it is made");
}

}  // namespace samebits::tools
