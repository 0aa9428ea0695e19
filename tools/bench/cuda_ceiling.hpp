// What a GPU can do at best, measured: copying, reading, and large products of the vendor's library.
#pragma once

#include "bench/ceiling.hpp"
#include "bench/cuda_blas.hpp"

namespace samebits::tools {

// Without the library the products are left out.
Ceiling measure_cuda_ceiling(const CublasLt* blas, cudaStream_t stream);

}  // namespace samebits::tools
