// What Hopper has and C++ has no word for: barriers in shared memory, bulk tensor copies, clusters, and
// kernels that start before the one they depend on has ended. One PTX instruction a function.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace samebits::engine::cuda {

__device__ inline std::uint32_t shared_address(const void* data) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(data));
}

// Barriers. A phase ends when `count` arrivals and all announced bytes have come. Arrivals and waits have the
// scope of a block, also those at another block's barrier: what they guard is moved by the copy engine and
// read by loads and tensor cores of one block, and a wider scope would fence all memory at every turn of a
// ring.
__device__ inline void barrier_init(std::uint64_t* barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count));
}
__device__ inline void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ inline void barrier_arrive_at(std::uint64_t* barrier,
                                         std::uint32_t rank) {  // of a block of the cluster
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}
__device__ inline void barrier_wait(std::uint64_t* barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\n"
      "bra WAIT;\n"
      "DONE:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// An arrival of this block's own.
__device__ inline void barrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Clusters.
__device__ inline std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline std::uint32_t cluster_size() {
  std::uint32_t size;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Bulk tensor copies: `x` counts along the inner dimension. What lies outside the tensor arrives as +0.
enum class Keep : std::uint64_t {
  normal = 0x1000000000000000,
  briefly = 0x12F0000000000000,
  long_ = 0x14F0000000000000
};

__device__ inline void load_tile(void* to, const CUtensorMap* map, int x, int y, std::uint64_t* barrier,
                                 Keep keep) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%2, %3}], "
      "[%4], %5;" ::"r"(shared_address(to)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)), "l"(static_cast<std::uint64_t>(keep))
      : "memory");
}
// To the same place of every block of the cluster, each with its own barrier.
__device__ inline void load_tile_for_all(void* to, const CUtensorMap* map, int x, int y,
                                         std::uint64_t* barrier, std::uint16_t blocks, Keep keep) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::"
      "cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(shared_address(to)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier)), "h"(blocks),
      "l"(static_cast<std::uint64_t>(keep))
      : "memory");
}
// Several pieces, `z` counting them.
__device__ inline void load_pieces(void* to, const CUtensorMap* map, int x, int y, int z,
                                   std::uint64_t* barrier, Keep keep) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%2, %3, %4}], "
      "[%5], %6;" ::"r"(shared_address(to)),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier)), "l"(static_cast<std::uint64_t>(keep))
      : "memory");
}
__device__ inline void load_pieces_for_all(void* to, const CUtensorMap* map, int x, int y, int z,
                                           std::uint64_t* barrier, std::uint16_t blocks, Keep keep) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::"
      "cache_hint "
      "[%0], [%1, {%2, %3, %4}], [%5], %6, %7;" ::"r"(shared_address(to)),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier)), "h"(blocks),
      "l"(static_cast<std::uint64_t>(keep))
      : "memory");
}
// From shared memory; what lies outside the tensor is not written. Once a thread's committed copies have been
// read, their source may be written again.
__device__ inline void store_tile(const CUtensorMap* map, int x, int y, const void* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
               "r"(x), "r"(y), "r"(shared_address(from))
               : "memory");
}
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int kLater = 0>  // but for those that were committed last
__device__ inline void wait_until_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLater) : "memory");
}
// Writes of this thread are seen by copy engines; and what others have written, by this thread's copies.
__device__ inline void fence_for_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ inline void fence_shared_for_copies() {  // of shared memory only
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Into L2 only.
__device__ inline void prefetch_pieces(const CUtensorMap* map, int x, int y, int z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y),
               "r"(z)
               : "memory");
}
__device__ inline void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Registers of this warpgroup, in multiples of 8.
template <int kCount>
__device__ inline void raise_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ inline void lower_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Programmatic dependent launch: wait until the kernels before have ended and their writes are seen; let the
// next one begin. Without the launch attribute both do nothing.
__device__ inline void wait_for_kernels_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ inline void let_next_kernel_begin() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// A stage of a ring and its phase.
struct RingPlace {
  int stage = 0;
  std::uint32_t phase = 0;
  __device__ void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1u;
    }
  }
};

}  // namespace samebits::engine::cuda
