#include "engine/cpu/kernel_table.hpp"
#include "engine/cpu/simd_avx2.hpp"

namespace samebits::engine::cpu {

const KernelTable& avx2_kernels() {
  static const KernelTable table = kernel_table<Avx2>("avx2");
  return table;
}

}  // namespace samebits::engine::cpu
