// The baseline on a GPU: the block as a chain of cuBLASLt's products and elementwise kernels, nothing fused.
#pragma once

#include <cstdint>
#include <optional>

#include "bench/cuda_blas.hpp"
#include "bench/cuda_sets.hpp"

namespace samebits::tools {

class CudaChain {
 public:
  // Chooses the algorithm of every product, each on the operands of the sets in turn.
  CudaChain(const CublasLt& blas, const CudaSets& sets, std::int64_t tokens, bool both, cudaStream_t stream);

  void forward(const BlockSet& set, cudaStream_t stream) const;   // three products, one kernel
  void backward(const BlockSet& set, cudaStream_t stream) const;  // six products, one kernel

  int fewest_candidates() const;  // timed for any product

 private:
  std::int64_t tokens_, hidden_, intermediate_;
  CudaMemory gate_, up_, act_, d_act_, d_gate_, d_up_;  // [M, I]
  std::optional<Product> into_intermediate_, down_;     // x or dy to [M, I]; act to y
  std::optional<Product> d_act_product_, d_hidden_, d_hidden_add_, d_gate_up_, d_down_;
};

}  // namespace samebits::tools
