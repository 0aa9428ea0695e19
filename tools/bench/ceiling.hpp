// What the machine can do at best, measured: f32 multiply-adds in registers, and reading memory.
#pragma once

#include <string>
#include <vector>

#include "samebits/view.hpp"

namespace samebits::tools {

struct PeakFlops {
  std::string isa;
  double flops = 0;  // a second, all threads together; a multiply-add counts two
};

// For each instruction set of this processor that the cpu engine knows.
std::vector<PeakFlops> measure_peak_flops(int threads);

// Bytes a second of reading these tensors, the best of a few passes: what a small batch cannot beat.
double measure_read_bandwidth(const std::vector<ConstView>& tensors, int threads);

}  // namespace samebits::tools
