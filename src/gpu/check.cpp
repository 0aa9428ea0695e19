#include "gpu/check.hpp"

#include <fmt/format.h>

#include "samebits/error.hpp"

namespace samebits::SAMEBITS_GPU_NAMES {

void check(cudaError_t code, const char* tried) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // not left for whoever asks next
  throw Error(code == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::environment,
              fmt::format("{}: {} answers {} ({})", tried, kRuntimeName, cudaGetErrorName(code),
                          cudaGetErrorString(code)));
}

void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace samebits::SAMEBITS_GPU_NAMES
