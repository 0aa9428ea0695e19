// The runtime of the device memory that this build's transports move: CUDA's where the build has it, else
// HIP's under CUDA's names.
#pragma once

#if defined(SAMEBITS_TRANSPORT_ROCM)
#include "gpu/rocm_names.hpp"
#else
#include "gpu/cuda_names.hpp"
#endif

namespace samebits::transport {

#if defined(SAMEBITS_TRANSPORT_ROCM)
using namespace rocm_names;
#else
using namespace cuda_names;
#endif

}  // namespace samebits::transport
