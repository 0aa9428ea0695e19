// cuda_device.cpp of engine/cuda as HIP.
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/cuda_device.cpp"  // NOLINT(bugprone-suspicious-include)
