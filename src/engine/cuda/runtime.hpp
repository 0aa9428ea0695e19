// The runtime that the sources of this folder are compiled against: CUDA's, or HIP's under CUDA's names
// (engine/hip/rocm.hpp).
#pragma once

#include "engine/cuda/namespace.hpp"

#if defined(SAMEBITS_ROCM)
#include "engine/hip/rocm.hpp"
#else

#include <cuda_runtime_api.h>

namespace samebits::engine::cuda {

// The fast kernels for few tokens are fed by the copy engine and its barriers.
inline constexpr bool kHasCopyEngine = true;

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

}  // namespace samebits::engine::cuda
#endif
