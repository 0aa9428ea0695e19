// The runtime that a source is compiled against: CUDA's, or under SAMEBITS_ROCM HIP's by CUDA's names. What a
// build with both has of each is told apart by the namespace of the names, and a namespace has no other way
// to be a parameter than this macro.
#pragma once

#if defined(SAMEBITS_ROCM)
#include "gpu/rocm_names.hpp"
#define SAMEBITS_GPU_NAMES rocm_names
#else
#include "gpu/cuda_names.hpp"
#define SAMEBITS_GPU_NAMES cuda_names
#endif
