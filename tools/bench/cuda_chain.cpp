#include "bench/cuda_chain.hpp"

#include <algorithm>
#include <limits>

#include "bench/cuda_kernels.hpp"

namespace samebits::tools {

CudaChain::CudaChain(const CublasLt& blas, const CudaSets& sets, std::int64_t tokens, bool both,
                     cudaStream_t stream)
    : tokens_(tokens), hidden_(sets.of_call(0).x.cols), intermediate_(sets.of_call(0).gate.rows) {
  const auto activation = [&] {
    const std::int64_t count = tokens_ * intermediate_;
    CudaMemory memory = make_memory(static_cast<std::size_t>(count) * 2);
    launch_random(memory.get(), count, 1, stream);
    return memory;
  };
  const auto choose = [&](std::optional<Product>& product, const ProductShape& shape,
                          const auto& operands_of) {
    std::vector<ProductOperands> rotation;
    for (int call = 0; call < sets.calls(); ++call) rotation.push_back(operands_of(sets.of_call(call)));
    product.emplace(blas, shape, rotation, stream);
  };
  using Set = const BlockSet&;
  using Operands = ProductOperands;
  const std::int64_t M = tokens_, H = hidden_, I = intermediate_;
  gate_ = activation();
  up_ = activation();
  act_ = activation();
  choose(into_intermediate_, {.m = M, .n = I, .k = H, .b_transposed = true}, [&](Set s) {
    return Operands{s.x.data, s.gate.data, gate_.get()};
  });
  choose(down_, {.m = M, .n = H, .k = I, .b_transposed = true}, [&](Set s) {
    return Operands{act_.get(), s.down.data, s.y.data};
  });
  if (!both) return;
  d_act_ = activation();
  d_gate_ = activation();
  d_up_ = activation();
  choose(d_act_product_, {.m = M, .n = I, .k = H}, [&](Set s) {
    return Operands{s.dy.data, s.down.data, d_act_.get()};
  });
  choose(d_hidden_, {.m = M, .n = H, .k = I}, [&](Set s) {
    return Operands{d_gate_.get(), s.gate.data, s.dx.data};
  });
  choose(d_hidden_add_, {.m = M, .n = H, .k = I, .add = true}, [&](Set s) {
    return Operands{d_up_.get(), s.up.data, s.dx.data};
  });
  choose(d_gate_up_, {.m = I, .n = H, .k = M, .a_transposed = true}, [&](Set s) {
    return Operands{d_gate_.get(), s.x.data, s.d_gate.data};
  });
  choose(d_down_, {.m = H, .n = I, .k = M, .a_transposed = true}, [&](Set s) {
    return Operands{s.dy.data, act_.get(), s.d_down.data};
  });
}

void CudaChain::forward(const BlockSet& set, cudaStream_t stream) const {
  into_intermediate_->run({set.x.data, set.gate.data, gate_.get()}, stream);
  into_intermediate_->run({set.x.data, set.up.data, up_.get()}, stream);
  launch_silu_product(gate_.get(), up_.get(), act_.get(), tokens_ * intermediate_, stream);
  down_->run({act_.get(), set.down.data, set.y.data}, stream);
}

void CudaChain::backward(const BlockSet& set, cudaStream_t stream) const {
  d_act_product_->run({set.dy.data, set.down.data, d_act_.get()}, stream);
  launch_silu_product_gradient(d_act_.get(), gate_.get(), up_.get(), d_gate_.get(), d_up_.get(),
                               tokens_ * intermediate_, stream);
  d_hidden_->run({d_gate_.get(), set.gate.data, set.dx.data}, stream);
  d_hidden_add_->run({d_up_.get(), set.up.data, set.dx.data}, stream);
  d_gate_up_->run({d_gate_.get(), set.x.data, set.d_gate.data}, stream);
  d_gate_up_->run({d_up_.get(), set.x.data, set.d_up.data}, stream);
  d_down_->run({set.dy.data, act_.get(), set.d_down.data}, stream);
}

int CudaChain::fewest_candidates() const {
  int fewest = std::numeric_limits<int>::max();
  for (const auto* product :
       {&into_intermediate_, &down_, &d_act_product_, &d_hidden_, &d_hidden_add_, &d_gate_up_, &d_down_}) {
    if (*product) fewest = std::min(fewest, (*product)->candidates());
  }
  return fewest;
}

}  // namespace samebits::tools
