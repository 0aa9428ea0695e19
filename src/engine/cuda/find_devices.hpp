// The engine of one device, and what a machine has of them: what the public functions of either runtime call.
#pragma once

#include <memory>

#include "engine/cuda/namespace.hpp"
#include "engine/engine.hpp"
#include "samebits/engine.hpp"

namespace samebits::engine::SAMEBITS_GPU {

std::shared_ptr<Engine> make_engine(int device);
GpuStatus find_devices();

}  // namespace samebits::engine::SAMEBITS_GPU
