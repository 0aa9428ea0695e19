// sigma(g) for a bf16 g: correctly rounded to f32 (`exact`), or what PyTorch's CUDA kernels compute (`cuda`).
#pragma once

#include "numerics/bf16.hpp"
#include "samebits/contract.hpp"

namespace samebits::numerics {

// 1 / (1 + e^-g) in double, by our own exp so that no libm is in the path of a bit; checked on all 65,536
// inputs.
float sigma_exact(Bf16 g);

// The recording of an H200, kept as its distance in ulps from the exact one.
float sigma_cuda(Bf16 g);

inline float sigma(Sigma kind, Bf16 g) { return kind == Sigma::exact ? sigma_exact(g) : sigma_cuda(g); }

}  // namespace samebits::numerics
