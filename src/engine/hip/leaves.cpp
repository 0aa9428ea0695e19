// leaves.cpp of engine/cuda as HIP.
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/leaves.cpp"  // NOLINT(bugprone-suspicious-include)
