// fma_leaves.cpp of engine/cuda as HIP.
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/fma_leaves.cpp"  // NOLINT(bugprone-suspicious-include)
