// What both kernels of a mailbox do: they are brought in while the kernel in front still runs, and wait until
// they are told to.
#pragma once

#include <cuda_runtime.h>

namespace samebits::transport::nccl {

// A kernel's first words: the next one may be brought in, and what those before this one wrote is there.
__device__ inline void begin_early() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

template <class Task>
cudaError_t launch_early(void (*kernel)(Task), unsigned blocks, unsigned threads, cudaStream_t stream,
                         const Task& task) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, task);
}

}  // namespace samebits::transport::nccl
