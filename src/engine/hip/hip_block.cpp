// cuda_block.cpp of engine/cuda as HIP.
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/cuda_block.cpp"  // NOLINT(bugprone-suspicious-include)
