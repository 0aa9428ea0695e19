// What engine/cuda/runtime.hpp holds, of HIP.
#pragma once

#include "engine/hip/namespace.hpp"
#include "gpu/rocm_names.hpp"

namespace samebits::engine::hip {

using namespace rocm_names;

// No bulk copies with barriers on this device: few tokens are served by the tiles, too.
inline constexpr bool kHasCopyEngine = false;

}  // namespace samebits::engine::hip
