// The kernels of the bench itself: the elementwise half of the baseline, a read of memory, a wait, and random
// values.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace samebits::tools {

// bf16, `count` elements each, addresses that are multiples of 16. act = silu(gate) * up.
void launch_silu_product(const void* gate, const void* up, void* act, std::int64_t count,
                         cudaStream_t stream);

// d_gate and d_up from d_act and the saved gate and up.
void launch_silu_product_gradient(const void* d_act, const void* gate, const void* up, void* d_gate,
                                  void* d_up, std::int64_t count, cudaStream_t stream);

// Reads every byte; `sink` is one word that is hardly ever written.
void launch_read(const void* data, std::int64_t bytes, std::uint32_t* sink, cudaStream_t stream);

// Keeps the stream busy for so long, and nothing else: what is enqueued meanwhile then runs without gaps.
void launch_hold(std::uint64_t nanoseconds, cudaStream_t stream);

// bf16 values around zero, of magnitude up to 1.
void launch_random(void* out, std::int64_t count, std::uint32_t seed, cudaStream_t stream);

}  // namespace samebits::tools
