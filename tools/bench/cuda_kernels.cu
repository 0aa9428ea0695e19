#include <cuda_bf16.h>

#include <algorithm>

#include "bench/cuda_kernels.hpp"
#include "bench/cuda_resources.hpp"

namespace samebits::tools {
namespace {

constexpr int kThreads = 256;
constexpr int kReadThreads = 512;
constexpr std::int64_t kMostBlocks = 132 * 8;

unsigned blocks_for(std::int64_t items, int threads) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((items + threads - 1) / threads, 1, kMostBlocks));
}

__device__ std::int64_t first_item() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::int64_t item_step() { return std::int64_t{gridDim.x} * blockDim.x; }

// Eight bf16 in one access.
struct alignas(16) Eight {
  __nv_bfloat16 value[8];
};

__device__ float silu(float g) { return g / (1.0f + __expf(-g)); }

__device__ __nv_bfloat16 product(__nv_bfloat16 gate, __nv_bfloat16 up) {
  return __float2bfloat16(silu(__bfloat162float(gate)) * __bfloat162float(up));
}

struct Gradient {
  __nv_bfloat16 gate, up;
};

__device__ Gradient gradient(__nv_bfloat16 d_act, __nv_bfloat16 gate, __nv_bfloat16 up) {
  const float d = __bfloat162float(d_act), g = __bfloat162float(gate), u = __bfloat162float(up);
  const float s = 1.0f / (1.0f + __expf(-g));
  return {__float2bfloat16(d * u * s * (1.0f + g * (1.0f - s))), __float2bfloat16(d * g * s)};
}

// body(i) of eights, then of the elements that are left.
template <class EightBody, class OneBody>
__device__ void for_each(std::int64_t count, const EightBody& eight, const OneBody& one) {
  for (std::int64_t i = first_item(); i < count / 8; i += item_step()) eight(i);
  for (std::int64_t i = count / 8 * 8 + first_item(); i < count; i += item_step()) one(i);
}

__global__ void silu_product_kernel(const __nv_bfloat16* gate, const __nv_bfloat16* up, __nv_bfloat16* act,
                                    std::int64_t count) {
  for_each(
      count,
      [&](std::int64_t i) {
        const Eight g = reinterpret_cast<const Eight*>(gate)[i], u = reinterpret_cast<const Eight*>(up)[i];
        Eight a;
#pragma unroll
        for (int e = 0; e < 8; ++e) a.value[e] = product(g.value[e], u.value[e]);
        reinterpret_cast<Eight*>(act)[i] = a;
      },
      [&](std::int64_t i) { act[i] = product(gate[i], up[i]); });
}

__global__ void silu_product_gradient_kernel(const __nv_bfloat16* d_act, const __nv_bfloat16* gate,
                                             const __nv_bfloat16* up, __nv_bfloat16* d_gate,
                                             __nv_bfloat16* d_up, std::int64_t count) {
  for_each(
      count,
      [&](std::int64_t i) {
        const Eight d = reinterpret_cast<const Eight*>(d_act)[i], g = reinterpret_cast<const Eight*>(gate)[i],
                    u = reinterpret_cast<const Eight*>(up)[i];
        Eight dg, du;
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const Gradient made = gradient(d.value[e], g.value[e], u.value[e]);
          dg.value[e] = made.gate;
          du.value[e] = made.up;
        }
        reinterpret_cast<Eight*>(d_gate)[i] = dg;
        reinterpret_cast<Eight*>(d_up)[i] = du;
      },
      [&](std::int64_t i) {
        const Gradient made = gradient(d_act[i], gate[i], up[i]);
        d_gate[i] = made.gate;
        d_up[i] = made.up;
      });
}

// Eight loads of 16 bytes a thread are in flight before the first is looked at.
__global__ void __launch_bounds__(kReadThreads)
    read_kernel(const uint4* data, std::int64_t count, std::uint32_t* sink) {
  constexpr int kFlight = 8;
  uint4 all{};
  const auto take = [&](const uint4& word) {
    all.x ^= word.x;
    all.y ^= word.y;
    all.z ^= word.z;
    all.w ^= word.w;
  };
  const std::int64_t step = item_step();
  std::int64_t i = first_item();
  for (; i + (kFlight - 1) * step < count; i += kFlight * step) {
    uint4 word[kFlight];
#pragma unroll
    for (int f = 0; f < kFlight; ++f) word[f] = __ldcs(data + i + f * step);
#pragma unroll
    for (int f = 0; f < kFlight; ++f) take(word[f]);
  }
  for (; i < count; i += step) take(__ldcs(data + i));
  if ((all.x ^ all.y ^ all.z ^ all.w) == 0x5EEDB175u) *sink = all.x;
}

__global__ void random_kernel(__nv_bfloat16* out, std::int64_t count, std::uint32_t seed) {
  for (std::int64_t i = first_item(); i < count; i += item_step()) {
    std::uint32_t h = static_cast<std::uint32_t>(i) * 0x9E3779B1u ^ seed;
    h = (h ^ h >> 16) * 0x7FEB352Du;
    h = (h ^ h >> 15) * 0x846CA68Bu;
    h ^= h >> 16;
    // The sum of two even distributions over 16 bits.
    out[i] = __float2bfloat16(
        (static_cast<float>(h & 0xFFFFu) + static_cast<float>(h >> 16)) * (1.0f / 65536) - 1.0f);
  }
}

__device__ std::uint64_t nanoseconds_now() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void hold_kernel(std::uint64_t nanoseconds) {
  const std::uint64_t begun = nanoseconds_now();
  while (nanoseconds_now() - begun < nanoseconds) __nanosleep(500);
}

}  // namespace

void launch_silu_product(const void* gate, const void* up, void* act, std::int64_t count,
                         cudaStream_t stream) {
  silu_product_kernel<<<blocks_for(count / 8, kThreads), kThreads, 0, stream>>>(
      static_cast<const __nv_bfloat16*>(gate), static_cast<const __nv_bfloat16*>(up),
      static_cast<__nv_bfloat16*>(act), count);
  check(cudaGetLastError(), "the baseline's activation");
}

void launch_silu_product_gradient(const void* d_act, const void* gate, const void* up, void* d_gate,
                                  void* d_up, std::int64_t count, cudaStream_t stream) {
  silu_product_gradient_kernel<<<blocks_for(count / 8, kThreads), kThreads, 0, stream>>>(
      static_cast<const __nv_bfloat16*>(d_act), static_cast<const __nv_bfloat16*>(gate),
      static_cast<const __nv_bfloat16*>(up), static_cast<__nv_bfloat16*>(d_gate),
      static_cast<__nv_bfloat16*>(d_up), count);
  check(cudaGetLastError(), "the gradient of the baseline's activation");
}

void launch_read(const void* data, std::int64_t bytes, std::uint32_t* sink, cudaStream_t stream) {
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(uint4));
  read_kernel<<<blocks_for(count / 8, kReadThreads), kReadThreads, 0, stream>>>(
      static_cast<const uint4*>(data), count, sink);
  check(cudaGetLastError(), "reading memory");
}

void launch_hold(std::uint64_t nanoseconds, cudaStream_t stream) {
  hold_kernel<<<1, 1, 0, stream>>>(nanoseconds);
  check(cudaGetLastError(), "holding a stream");
}

void launch_random(void* out, std::int64_t count, std::uint32_t seed, cudaStream_t stream) {
  random_kernel<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(out), count,
                                                                      seed);
  check(cudaGetLastError(), "random values");
}

}  // namespace samebits::tools
