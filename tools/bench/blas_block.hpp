// The baseline: the products of the block on f32 copies, by OpenBLAS. Products alone: no activation between
// them.
#pragma once

#include <cstdint>
#include <vector>

#include "block/layout_run.hpp"
#include "shared/openblas.hpp"

namespace samebits::tools {

class BlasBlock {
 public:
  // `block` gives the shape, the weights and the most tokens.
  BlasBlock(const OpenBlas& blas, const BlockCase& block, bool with_backward, int threads);

  void forward(std::int64_t tokens);   // three products
  void backward(std::int64_t tokens);  // six

 private:
  const OpenBlas& blas_;
  std::int64_t H_, I_;
  std::vector<float> x_, dy_, y_, dx_;   // [M, H]
  std::vector<float> g_, u_, a_;         // [M, I]; in backward dG, dU and dA's place
  std::vector<float> gate_, up_, down_;  // [I, H], [I, H], [H, I]
  std::vector<float> gate_gradient_, up_gradient_, down_gradient_;
};

}  // namespace samebits::tools
