// The elementwise kernels of engine/cuda as HIP.
#include <hip/hip_runtime.h>

#include "engine/hip/launch.hpp"
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/elementwise.cu"
