// A launch with what Hopper adds: clusters, and a start before the kernel in front has ended.
#pragma once

#include <cuda_runtime.h>

#include "engine/cuda/runtime.hpp"
#include "gpu/check.hpp"

namespace samebits::engine::cuda {

struct LaunchShape {
  int blocks = 0;  // of a row of them
  int threads = 0;
  int shared_bytes = 0;
  int cluster = 1;
  // The kernel waits for those before it by itself (wait_for_kernels_before), so it may be brought in early.
  bool early = false;
  // All blocks are resident at once, or the launch waits.
  bool together = false;
  int rows = 1;  // of blocks
};

// What a kernel needs once on every device before its first launch.
template <class... Parameters>
void allow_shared_memory(void (*kernel)(Parameters...), int bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "asking for a kernel's shared memory");
}

// How many blocks can be resident as clusters of this shape.
template <class... Parameters>
int resident_blocks(void (*kernel)(Parameters...), int threads, int shared_bytes, int cluster) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(cluster));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config), "asking how many clusters fit");
  return clusters * cluster;
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream, const char* name,
            const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.rows));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = stream;
  cudaLaunchAttribute attributes[2] = {};  // the cluster, and one more
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(shape.cluster);
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  if (shape.together) {
    attributes[1].id = cudaLaunchAttributeCooperative;
    attributes[1].val.cooperative = 1;
  } else {
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
  }
  config.attrs = attributes;
  config.numAttrs = shape.early || shape.together ? 2 : 1;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), name);
}

}  // namespace samebits::engine::cuda
