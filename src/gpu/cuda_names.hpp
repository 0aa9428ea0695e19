// CUDA's runtime, and what gpu/rocm_names.hpp has beside CUDA's names.
#pragma once

#include <cuda_runtime_api.h>

#include "samebits/memory.hpp"

namespace samebits::cuda_names {

inline constexpr const char* kRuntimeName = "CUDA";
inline constexpr MemorySpace kMemorySpace = MemorySpace::cuda;

// Where an address lies.
struct AddressPlace {
  bool device = false, managed = false;
  int index = 0;
};
inline cudaError_t place_of(const void* address, AddressPlace& place) {
  cudaPointerAttributes attributes{};
  const cudaError_t code = cudaPointerGetAttributes(&attributes, address);
  place = {attributes.type == cudaMemoryTypeDevice, attributes.type == cudaMemoryTypeManaged,
           attributes.device};
  return code;
}

}  // namespace samebits::cuda_names
