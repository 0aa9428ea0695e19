// Pending nodes of tiles.cuh.
#pragma once

#include "engine/cuda/sm90/tiles_ring.cuh"

namespace samebits::engine::cuda::tiles {

// A thread's pending nodes in the scratch: sixteen bytes of every thread side by side. Of a node that the
// next leaf is merged with, the first kNear values stay in registers.
template <int kRegisters, int kNear>
struct TilePending {
  static constexpr int kThreads = 128 * kGroups, kLevel = kRegisters / 4 * kThreads;  // in float4
  float4* scratch;  // this thread's, of level 0
  int height = 0;
  bool top_is_near = false;
  float near[kNear];
  static_assert(kRegisters % kNear == 0);

  __device__ void push(const float (&acc)[kRegisters], bool stays_near) {
    float4* const level = scratch + height++ * kLevel;
    top_is_near = stays_near;
    if (stays_near) {
#pragma unroll
      for (int i = 0; i < kNear; ++i) near[i] = acc[i];
    } else {
      store<0, kNear>(level, acc);
    }
    store<kNear, kRegisters>(level, acc);
  }
  // acc = combine(pending, acc)
  template <class Combine>
  __device__ void pop(float (&acc)[kRegisters], const Combine& combine) {
    const float4* const level = scratch + --height * kLevel;
    if (top_is_near) {
#pragma unroll
      for (int i = 0; i < kNear; ++i) acc[i] = combine(near[i], acc[i]);
    } else {
      merge<0, kNear>(level, acc, combine);
    }
    merge<kNear, kRegisters>(level, acc, combine);
    top_is_near = false;
#pragma unroll
    for (float& value : near) value = 0.0f;  // or its registers would be kept while values are on their way
  }

 private:
  template <int kBegin, int kEnd>
  __device__ static void store(float4* level, const float (&acc)[kRegisters]) {
#pragma unroll
    for (int i = kBegin; i < kEnd; i += 4)
      level[i / 4 * kThreads] = make_float4(acc[i], acc[i + 1], acc[i + 2], acc[i + 3]);
  }
  // As many values on their way at once as there are registers for: what waits is the way to L2.
  template <int kBegin, int kEnd, class Combine>
  __device__ static void merge(const float4* level, float (&acc)[kRegisters], const Combine& combine) {
#pragma unroll
    for (int begin = kBegin; begin < kEnd; begin += kNear) {
      float4 lower[kNear / 4];
#pragma unroll
      for (int i = 0; i < kNear / 4; ++i) lower[i] = load_now(level + (begin / 4 + i) * kThreads);
#pragma unroll
      for (int i = 0; i < kNear / 4; ++i) {
        const int to = begin + 4 * i;
        acc[to] = combine(lower[i].x, acc[to]);
        acc[to + 1] = combine(lower[i].y, acc[to + 1]);
        acc[to + 2] = combine(lower[i].z, acc[to + 2]);
        acc[to + 3] = combine(lower[i].w, acc[to + 3]);
      }
    }
  }
  // In the order in which it is written.
  __device__ static float4 load_now(const float4* from) {
    float4 out;
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(out.x), "=f"(out.y), "=f"(out.z), "=f"(out.w)
                 : "l"(from)
                 : "memory");
    return out;
  }
};

}  // namespace samebits::engine::cuda::tiles
