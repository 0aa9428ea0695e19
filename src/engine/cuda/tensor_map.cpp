#include "engine/cuda/tensor_map.hpp"

#include <fmt/format.h>

#include "engine/cuda/check.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::cuda {
namespace {

constexpr std::int64_t kMostExtent = std::int64_t{1} << 31;

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

bool is_mappable(const Operand& operand, std::int64_t k) {
  const bool k_major = is_k_major(operand);
  if (!k_major && operand.outer_stride != 1) return false;
  const std::int64_t stride = k_major ? operand.outer_stride : operand.k_stride;
  return reinterpret_cast<std::uintptr_t>(operand.data) % 16 == 0 && stride > 0 && stride % 8 == 0 &&
         stride < (std::int64_t{1} << 38) && operand.outer < kMostExtent && k < kMostExtent;
}

namespace {

struct Extents {
  cuuint32_t rank;
  cuuint64_t extent[3];
  cuuint64_t pitch[2];  // bytes
  cuuint32_t box[3];
};

CUtensorMap encode(const Operand& operand, const Extents& extents) {
  const cuuint32_t step[3] = {1, 1, 1};
  CUtensorMap map;
  const CUresult code = encoder()(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, extents.rank, const_cast<std::uint16_t*>(operand.data),
      extents.extent, extents.pitch, extents.box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
      extents.box[0] == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    throw Error(ErrorCode::internal,
                fmt::format("the driver refuses the map of a {} x {} matrix (code {})", extents.extent[1],
                            extents.extent[0], static_cast<int>(code)));
  }
  return map;
}

cuuint64_t bytes(std::int64_t elements) { return static_cast<cuuint64_t>(elements) * 2; }

}  // namespace

CUtensorMap make_tensor_map(const Operand& operand, std::int64_t k, int inner, int rows) {
  const bool k_major = is_k_major(operand);
  return encode(operand, {2,
                          {static_cast<cuuint64_t>(k_major ? k : operand.outer),
                           static_cast<cuuint64_t>(k_major ? operand.outer : k), 1},
                          {bytes(k_major ? operand.outer_stride : operand.k_stride), 0},
                          {static_cast<cuuint32_t>(inner), static_cast<cuuint32_t>(rows), 1}});
}

CUtensorMap make_piece_map(const Operand& operand, std::int64_t k, int rows, int pieces) {
  const bool k_major = is_k_major(operand);
  const std::int64_t piece = k_major ? 64 : 32;
  return encode(
      operand,
      {3,
       {static_cast<cuuint64_t>(piece), static_cast<cuuint64_t>(k_major ? operand.outer : k),
        static_cast<cuuint64_t>((k_major ? k : operand.outer) / piece)},
       {bytes(k_major ? operand.outer_stride : operand.k_stride), bytes(piece)},
       {static_cast<cuuint32_t>(piece), static_cast<cuuint32_t>(rows), static_cast<cuuint32_t>(pieces)}});
}

}  // namespace samebits::engine::cuda
