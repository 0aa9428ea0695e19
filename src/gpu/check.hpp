// The runtime's answers as samebits::Error.
#pragma once

#include "gpu/runtime.hpp"

namespace samebits::SAMEBITS_GPU_NAMES {

// Throws Error(environment), or Error(out_of_memory), naming what was tried and what the runtime answered.
void check(cudaError_t code, const char* tried);

// The error of the launch just made, if any.
void check_launch(const char* kernel);

}  // namespace samebits::SAMEBITS_GPU_NAMES
