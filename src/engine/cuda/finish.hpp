// Finishing trees from covers.
#pragma once

#include "engine/cuda/runtime.hpp"
#include "engine/engine.hpp"

namespace samebits::engine::SAMEBITS_GPU {

// Nodes of a finish travel in a kernel's parameters.
inline constexpr int kMostFinishNodes = 512;

// `f32_nodes`: nodes are stored as f32 whatever the contract's node type.
void finish(const Contract& contract, const Finish& stage, bool f32_nodes, cudaStream_t stream);

}  // namespace samebits::engine::SAMEBITS_GPU
