// The fma tiles of engine/cuda as HIP.
#include <hip/hip_runtime.h>

#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/fma/tiles.cu"
