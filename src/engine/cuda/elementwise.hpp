// The passes between contractions where nothing has fused them: the activation, its gradient, and copies.
#pragma once

#include "engine/cuda/runtime.hpp"
#include "engine/engine.hpp"

namespace samebits::engine::SAMEBITS_GPU {

// `sigma`: 65,536 floats on the device, indexed by the bf16 bit pattern.
void activate(const Contract& contract, const float* sigma, const ConstView& gate, const ConstView& up,
              const View& act, cudaStream_t stream);

// dG and dU from dA; `d_act` may be the storage of `d_up`.
void activate_gradient(const Contract& contract, const float* sigma, const ConstView& d_act,
                       const ConstView& gate, const ConstView& up, const View& d_gate, const View& d_up,
                       cudaStream_t stream);

// The sum over an empty axis.
void fill_zero(const View& out, cudaStream_t stream);

// Within the device, any strides.
void copy_strided(const View& to, const ConstView& from, cudaStream_t stream);

}  // namespace samebits::engine::SAMEBITS_GPU
