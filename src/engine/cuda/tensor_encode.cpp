#include "engine/cuda/tensor_encode.hpp"

#include <fmt/format.h>

#include "engine/cuda/runtime.hpp"
#include "gpu/check.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::cuda {
namespace {

// The driver's encoder, found through the runtime so that nothing links with the driver.
using Encode = decltype(&cuTensorMapEncodeTiled);
Encode encoder() {
  static const Encode found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                           &result),
          "looking for cuTensorMapEncodeTiled");
    if (function == nullptr || result != cudaDriverEntryPointSuccess) {
      throw Error(ErrorCode::environment,
                  "the NVIDIA driver has no cuTensorMapEncodeTiled: it is older than CUDA 12");
    }
    return reinterpret_cast<Encode>(function);
  }();
  return found;
}

}  // namespace

CUtensorMap encode_tensor(const void* data, const TensorExtents& extents, CUtensorMapSwizzle swizzle) {
  const cuuint32_t step[3] = {1, 1, 1};
  CUtensorMap map;
  const CUresult code =
      encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, extents.rank, const_cast<void*>(data), extents.extent,
                extents.pitch, extents.box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    throw Error(ErrorCode::internal,
                fmt::format("the driver refuses the map of a {} x {} matrix (code {})", extents.extent[1],
                            extents.extent[0], static_cast<int>(code)));
  }
  return map;
}

}  // namespace samebits::engine::cuda
