// What engine/cuda/device_kind.hpp holds, of AMD's devices.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "engine/hip/rocm.hpp"

namespace samebits::engine::hip {

// "gfx942:sramecc+:xnack-" is a gfx942.
inline std::string kind_of(const cudaDeviceProp& properties) {
  const std::string_view name = properties.gcnArchName;
  return std::string(name.substr(0, name.find(':')));
}
inline bool is_served(const cudaDeviceProp& properties) { return kind_of(properties) == "gfx942"; }
inline constexpr const char* kServed = "MI300 GPUs (gfx942)";
inline constexpr const char* kNoneServed = "no MI300 GPU (gfx942)";

inline std::string no_devices(const std::string&, cudaError_t code) {
  return code == hipErrorNoDevice || code == hipErrorNotInitialized || code == hipErrorInvalidDevice
             ? "no AMD GPU, or no driver for it"
             : cudaGetErrorString(code);
}

inline std::string dotted(int version) {
  return fmt::format("{}.{}", version / 10000000, version % 10000000 / 100000);
}

}  // namespace samebits::engine::hip
