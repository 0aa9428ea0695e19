// fma/leaves.cpp of engine/cuda as HIP.
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/fma/leaves.cpp"  // NOLINT(bugprone-suspicious-include)
