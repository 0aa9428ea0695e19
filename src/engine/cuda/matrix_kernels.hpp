// The kernels of the leaf that this device's matrix cores have.
#pragma once

#include "engine/cuda/namespace.hpp"

#if defined(SAMEBITS_ROCM)
#include "engine/hip/gfx942_kernels.hpp"
namespace samebits::engine::hip {
namespace matrix_leaf = gfx942_leaf;
namespace gfx942_leaf {
inline constexpr bool kTakesSlices = false;  // of a cover
}
inline constexpr bool kMatrixServesAll = true;  // no contraction is left to the plain kernels
}  // namespace samebits::engine::hip
#else
#include "engine/cuda/sm90/kernels.hpp"
namespace samebits::engine::cuda {
namespace matrix_leaf = sm90_leaf;
namespace sm90_leaf {
inline constexpr bool kTakesSlices = true;
}
inline constexpr bool kMatrixServesAll = false;
}  // namespace samebits::engine::cuda
#endif
