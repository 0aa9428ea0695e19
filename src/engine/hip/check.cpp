// check.cpp of engine/cuda as HIP.
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/check.cpp"  // NOLINT(bugprone-suspicious-include)
