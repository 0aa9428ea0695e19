// The kernels of the leaf that this device's matrix cores have.
#pragma once

#include "engine/cuda/namespace.hpp"

#if defined(SAMEBITS_ROCM)
#include "engine/hip/gfx942_kernels.hpp"
namespace samebits::engine::hip {
namespace matrix_leaf = gfx942_leaf;
inline constexpr bool kMatrixServesAll = true;     // no contraction is left to the plain kernels
inline constexpr bool kMatrixTakesSlices = false;  // of a cover
}  // namespace samebits::engine::hip
#else
#include "engine/cuda/sm90/kernels.hpp"
namespace samebits::engine::cuda {
namespace matrix_leaf = sm90_leaf;
inline constexpr bool kMatrixServesAll = false;
inline constexpr bool kMatrixTakesSlices = true;
}  // namespace samebits::engine::cuda
#endif
