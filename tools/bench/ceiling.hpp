// What the machine can do at best, measured: arithmetic, and reading memory.
#pragma once

#include <string>
#include <vector>

#include "samebits/view.hpp"

namespace samebits::tools {

struct PeakFlops {
  std::string name;  // an instruction set, or a product: "bf16 2048x4096x24576"
  double flops = 0;  // a second, all threads together; a multiply-add counts two
};

struct Ceiling {
  std::string flops_are;  // "f32 multiply-adds in registers"
  std::vector<PeakFlops> flops;
  double read_bandwidth = 0;  // bytes a second
  double copy_bandwidth = 0;  // read and written; 0: not measured
};

// f32 multiply-adds in registers, for each instruction set of this processor that the cpu engine knows.
std::vector<PeakFlops> measure_peak_flops(int threads);

// Bytes a second of reading these tensors, the best of a few passes: what a small batch cannot beat.
double measure_read_bandwidth(const std::vector<ConstView>& tensors, int threads);

}  // namespace samebits::tools
