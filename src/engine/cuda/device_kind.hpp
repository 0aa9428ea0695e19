// Which devices an engine's kernels run on, and how people are told.
#pragma once

#include "engine/cuda/runtime.hpp"

#if defined(SAMEBITS_ROCM)
#include "engine/hip/device_kind.hpp"
#else

#include <fmt/format.h>

#include <string>

namespace samebits::engine::cuda {

inline bool is_served(const cudaDeviceProp& properties) {
  return properties.major == 9 && properties.minor == 0;
}
inline constexpr const char* kServed = "Hopper GPUs (compute capability 9.0)";
inline constexpr const char* kNoneServed = "no Hopper GPU (compute capability 9.0)";
inline std::string kind_of(const cudaDeviceProp& properties) {
  return fmt::format("compute capability {}.{}", properties.major, properties.minor);
}

inline std::string no_devices(const std::string& driver, cudaError_t code) {
  return driver.empty() ? "no NVIDIA driver" : cudaGetErrorString(code);
}

inline std::string dotted(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace samebits::engine::cuda
#endif
