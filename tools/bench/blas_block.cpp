#include "bench/blas_block.hpp"

#include "numerics/bf16.hpp"
#include "shared/parallel.hpp"

namespace samebits::tools {
namespace {

std::vector<float> widened(const ConstView& packed, int threads) {
  std::vector<float> out(static_cast<std::size_t>(packed.elements()));
  const auto* from = static_cast<const numerics::Bf16*>(packed.data);
  parallel_parts(threads, packed.elements(), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = numerics::widen(from[i]);
  });
  return out;
}

}  // namespace

BlasBlock::BlasBlock(const OpenBlas& blas, const BlockCase& block, bool with_backward, int threads)
    : blas_(blas),
      H_(block.shape.hidden),
      I_(block.shape.intermediate),
      x_(widened(block.x, threads)),
      gate_(widened(block.gate, threads)),
      up_(widened(block.up, threads)),
      down_(widened(block.down, threads)) {
  y_.resize(static_cast<std::size_t>(block.tokens * H_));
  for (auto* tensor : {&g_, &u_, &a_}) tensor->assign(static_cast<std::size_t>(block.tokens * I_), 0.5f);
  if (!with_backward) return;
  dy_ = widened(block.dy, threads);
  dx_.resize(static_cast<std::size_t>(block.tokens * H_));
  for (auto* tensor : {&gate_gradient_, &up_gradient_, &down_gradient_})
    tensor->resize(static_cast<std::size_t>(H_ * I_));
}

// a_ keeps what it was filled with: a product takes as long whatever the numbers.
void BlasBlock::forward(std::int64_t tokens) {
  blas_.multiply(tokens, I_, H_, {x_.data(), H_, false}, {gate_.data(), H_, true}, g_.data(), false);
  blas_.multiply(tokens, I_, H_, {x_.data(), H_, false}, {up_.data(), H_, true}, u_.data(), false);
  blas_.multiply(tokens, H_, I_, {a_.data(), I_, false}, {down_.data(), I_, true}, y_.data(), false);
}

void BlasBlock::backward(std::int64_t tokens) {
  blas_.multiply(tokens, I_, H_, {dy_.data(), H_, false}, {down_.data(), I_, false}, a_.data(), false);
  blas_.multiply(tokens, H_, I_, {g_.data(), I_, false}, {gate_.data(), H_, false}, dx_.data(), false);
  blas_.multiply(tokens, H_, I_, {u_.data(), I_, false}, {up_.data(), H_, false}, dx_.data(), true);
  blas_.multiply(I_, H_, tokens, {g_.data(), I_, true}, {x_.data(), H_, false}, gate_gradient_.data(), false);
  blas_.multiply(I_, H_, tokens, {u_.data(), I_, true}, {x_.data(), H_, false}, up_gradient_.data(), false);
  blas_.multiply(H_, I_, tokens, {dy_.data(), H_, true}, {a_.data(), I_, false}, down_gradient_.data(),
                 false);
}

}  // namespace samebits::tools
