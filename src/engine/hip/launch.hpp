// A launch on AMD: what engine/cuda/launch.hpp adds for Hopper is asked of nobody here.
#pragma once

#include <hip/hip_runtime.h>

#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/runtime.hpp"
#include "gpu/check.hpp"
#include "samebits/error.hpp"

// Parameters of a kernel lie in constant memory on this device; its compiler has no word for that.
#define __grid_constant__

namespace samebits::engine::hip {

struct LaunchShape {
  int blocks = 0;
  int threads = 0;
  int shared_bytes = 0;  // at most 64 KB, which every kernel may have
  bool early = false;    // means nothing here
  int rows = 1;          // of blocks
};

__device__ inline void wait_for_kernels_before() {}
__device__ inline void let_next_kernel_begin() {}

template <class... Parameters>
void allow_shared_memory(void (*)(Parameters...), int bytes) {
  constexpr int kSharedBytes = 64 * 1024;
  if (bytes > kSharedBytes)
    throw Error(ErrorCode::internal, "a kernel with more shared memory than a CU has");
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream, const char* name,
            const Arguments&... arguments) {
  kernel<<<dim3(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.rows)),
           static_cast<unsigned>(shape.threads), static_cast<unsigned>(shape.shared_bytes), stream>>>(
      arguments...);
  check_launch(name);
}

}  // namespace samebits::engine::hip
