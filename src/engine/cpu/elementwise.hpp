// The stages between contractions: the activation, its gradient, and finishing trees from covers.
#pragma once

#include "engine/cpu/thread_pool.hpp"
#include "engine/engine.hpp"

namespace samebits::engine::cpu {

// sigma of every bf16, indexed by bit pattern.
const float* sigma_table(Sigma kind);

// act = swiglu(gate, up), all [M, N].
void activate(const Contract& contract, const ConstView& gate, const ConstView& up, const View& act,
              ThreadPool& pool);

// dG and dU from dA; `d_act` may be the storage of `d_up`.
void activate_gradient(const Contract& contract, const ConstView& d_act, const ConstView& gate,
                       const ConstView& up, const View& d_gate, const View& d_up, ThreadPool& pool);

// `f32_nodes`: nodes are stored as f32 whatever the contract's node type.
void finish(const Contract& contract, const Finish& stage, bool f32_nodes, ThreadPool& pool);

}  // namespace samebits::engine::cpu
