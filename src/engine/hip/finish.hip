// The kernels of engine/cuda that finish covers, as HIP.
#include <hip/hip_runtime.h>

#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/finish.cu"
