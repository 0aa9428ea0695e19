#include "engine/cuda/fma/maps.hpp"

#include "engine/cuda/tensor_encode.hpp"

namespace samebits::engine::cuda::fma_leaf {

CUtensorMap map_of(const Operand& operand, std::int64_t k, int inner, int lines) {
  const bool columns = operand.k_stride != 1;
  const std::int64_t along = columns ? operand.outer : k, across = columns ? k : operand.outer;
  const std::int64_t stride = columns ? operand.k_stride : operand.outer_stride;
  // One line has no stride of its own, but the driver wants one.
  const TensorExtents extents{2,
                              {static_cast<cuuint64_t>(along), static_cast<cuuint64_t>(across), 1},
                              {static_cast<cuuint64_t>(across == 1 ? (along + 7) / 8 * 8 : stride) * 2, 0},
                              {static_cast<cuuint32_t>(inner), static_cast<cuuint32_t>(lines), 1}};
  return encode_tensor(operand.data, extents,
                       columns ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B);
}

}  // namespace samebits::engine::cuda::fma_leaf
