// The runtime that the sources of this folder are compiled against: CUDA's, or HIP's under CUDA's names
// (engine/hip/rocm.hpp).
#pragma once

#include "engine/cuda/namespace.hpp"

#if defined(SAMEBITS_ROCM)
#include "engine/hip/rocm.hpp"
#else

#include "gpu/cuda_names.hpp"

namespace samebits::engine::cuda {

using namespace cuda_names;

// The fast kernels for few tokens are fed by the copy engine and its barriers.
inline constexpr bool kHasCopyEngine = true;

}  // namespace samebits::engine::cuda
#endif
