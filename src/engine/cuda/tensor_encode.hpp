// The driver's encoder of tensor maps: what every description of a bf16 matrix for the copy engine goes
// through.
#pragma once

#include <cuda.h>

namespace samebits::engine::cuda {

// Inner dimension first; pitches in bytes, from the second dimension on.
struct TensorExtents {
  cuuint32_t rank;
  cuuint64_t extent[3];
  cuuint64_t pitch[2];
  cuuint32_t box[3];
};

CUtensorMap encode_tensor(const void* data, const TensorExtents& extents, CUtensorMapSwizzle swizzle);

}  // namespace samebits::engine::cuda
