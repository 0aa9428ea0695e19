// fma/kernels.cpp of engine/cuda as HIP.
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/fma/kernels.cpp"  // NOLINT(bugprone-suspicious-include)
