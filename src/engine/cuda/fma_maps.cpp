#include "engine/cuda/fma_maps.hpp"

#include <fmt/format.h>

#include "engine/cuda/check.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::cuda::fma_leaf {
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

CUtensorMap map_of(const Operand& operand, std::int64_t k, int inner, int lines) {
  const bool columns = operand.k_stride != 1;
  const std::int64_t along = columns ? operand.outer : k, across = columns ? k : operand.outer;
  const std::int64_t stride = columns ? operand.k_stride : operand.outer_stride;
  const cuuint64_t extent[2] = {static_cast<cuuint64_t>(along), static_cast<cuuint64_t>(across)};
  // One line has no stride of its own, but the driver wants one.
  const cuuint64_t pitch[1] = {static_cast<cuuint64_t>(across == 1 ? (along + 7) / 8 * 8 : stride) * 2};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(inner), static_cast<cuuint32_t>(lines)};
  const cuuint32_t step[2] = {1, 1};
  CUtensorMap map;
  const CUresult code = encoder()(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<std::uint16_t*>(operand.data), extent, pitch, box,
      step, CU_TENSOR_MAP_INTERLEAVE_NONE, columns ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    throw Error(ErrorCode::internal, fmt::format("the driver refuses the map of a {} x {} matrix (code {})",
                                                 across, along, static_cast<int>(code)));
  }
  return map;
}

}  // namespace samebits::engine::cuda::fma_leaf
