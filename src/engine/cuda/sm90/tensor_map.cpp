#include "engine/cuda/sm90/tensor_map.hpp"

#include "engine/cuda/tensor_encode.hpp"

namespace samebits::engine::cuda {
namespace {

constexpr std::int64_t kMostExtent = std::int64_t{1} << 31;

}  // namespace

bool is_mappable(const Operand& operand, std::int64_t k) {
  const bool k_major = is_k_major(operand);
  if (!k_major && operand.outer_stride != 1) return false;
  const std::int64_t stride = k_major ? operand.outer_stride : operand.k_stride;
  return reinterpret_cast<std::uintptr_t>(operand.data) % 16 == 0 && stride > 0 && stride % 8 == 0 &&
         stride < (std::int64_t{1} << 38) && operand.outer < kMostExtent && k < kMostExtent;
}

namespace {

CUtensorMap encode(const Operand& operand, const TensorExtents& extents) {
  return encode_tensor(operand.data, extents,
                       extents.box[0] == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
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
