// The runtime of the device memory that this build's transports move: CUDA's where the build has it, else
// HIP's under CUDA's names.
#pragma once

#if defined(SAMEBITS_TRANSPORT_ROCM)
#include "engine/hip/namespace.hpp"
#endif
//
#include "engine/cuda/runtime.hpp"

namespace samebits::transport {

using namespace engine::SAMEBITS_GPU;

}  // namespace samebits::transport
