// Comes first in every file of this folder: the sources of engine/cuda that follow are compiled as HIP, into
// samebits::engine::hip.
#pragma once

#define SAMEBITS_ROCM
#define SAMEBITS_GPU hip

#include "samebits/contract.hpp"

namespace samebits::engine::hip {

inline constexpr const char* kEngineName = "hip";
inline constexpr Leaf kMatrixLeaf = Leaf::gfx942;  // beside fma
inline constexpr const char* kOtherLeaf = "sm90 runs on the cuda and cpu engines";

}  // namespace samebits::engine::hip
