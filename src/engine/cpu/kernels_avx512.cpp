#include "engine/cpu/kernel_table.hpp"
#include "engine/cpu/simd_avx512.hpp"

namespace samebits::engine::cpu {

const KernelTable& avx512_kernels() {
  static const KernelTable table = kernel_table<Avx512>("avx512");
  return table;
}

}  // namespace samebits::engine::cpu
