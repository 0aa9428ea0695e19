// The end of a stream block of gate and up.
#pragma once

#include "engine/cuda/fma/stream.hpp"
#include "numerics/swiglu.hpp"

namespace samebits::engine::cuda::fma_leaf {

using numerics::Bf16;

// G, U and A from the block's roots, [tokens][tile] bf16 in shared memory: gate rows, then up rows.
__device__ inline void activate_tile(const StreamActivation& activation, const Bf16* roots, int half,
                                     int row0, int outer, int tokens) {
  constexpr int kBatch = 4;  // elements of a thread whose sigma is on its way
  const int count = half * tokens, threads = static_cast<int>(blockDim.x);
  const auto put = [](const View& view, int row, int col, Bf16 value) {
    static_cast<Bf16*>(view.data)[row * view.row_stride + col * view.col_stride] = value;
  };
  for (int first = static_cast<int>(threadIdx.x); first < count; first += kBatch * threads) {
    Bf16 gate[kBatch], up[kBatch];
    float sigma[kBatch];
    int token[kBatch], row[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = min(first + i * threads, count - 1);
      token[i] = at / half;
      row[i] = at - token[i] * half;
      gate[i] = roots[token[i] * 2 * half + row[i]];
      up[i] = roots[token[i] * 2 * half + half + row[i]];
      sigma[i] = __ldg(activation.sigma + gate[i]);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int col = row0 + row[i];
      if (first + i * threads >= count || col >= outer) continue;
      if (activation.keep) {
        put(activation.gate, token[i], col, gate[i]);
        put(activation.up, token[i], col, up[i]);
      }
      put(activation.act, token[i], col, numerics::swiglu(activation.kind, gate[i], up[i], sigma[i]));
    }
  }
}

}  // namespace samebits::engine::cuda::fma_leaf
