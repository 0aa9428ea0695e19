// fma_kernels.cpp of engine/cuda as HIP.
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/fma_kernels.cpp"  // NOLINT(bugprone-suspicious-include)
