// cuda_engine.cpp of engine/cuda as HIP.
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/cuda_engine.cpp"  // NOLINT(bugprone-suspicious-include)
