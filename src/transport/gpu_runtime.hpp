// The runtime of the device memory that this build's transports move: CUDA's where the build has it, else
// HIP's under CUDA's names.
#pragma once

#include "gpu/runtime.hpp"

namespace samebits::transport {

using namespace SAMEBITS_GPU_NAMES;

}  // namespace samebits::transport
