#include "engine/cpu/kernel_table.hpp"
#include "engine/cpu/simd_plain.hpp"

namespace samebits::engine::cpu {

const KernelTable& plain_kernels() {
  static const KernelTable table = kernel_table<Plain>("plain");
  return table;
}

}  // namespace samebits::engine::cpu
