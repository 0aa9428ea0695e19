// The sources of this folder that know no Hopper are compiled twice: as CUDA, and as HIP (engine/hip), where
// they are samebits::engine::hip. A namespace has no other way to be a parameter than this macro.
#pragma once

#if !defined(SAMEBITS_GPU)  // engine/hip/namespace.hpp has not come first
#define SAMEBITS_GPU cuda

#include "samebits/contract.hpp"

namespace samebits::engine::cuda {

inline constexpr const char* kEngineName = "cuda";
inline constexpr Leaf kMatrixLeaf = Leaf::sm90;  // beside fma
inline constexpr const char* kOtherLeaf = "gfx942 runs on the hip and cpu engines";

}  // namespace samebits::engine::cuda
#endif
