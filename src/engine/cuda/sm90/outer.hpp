// Weight gradients of few tokens, leaf sm90: an outer product of some steps for every element, so that all
// there is to it is writing the result. Two tiles of it are on their way out while the next is made.
#pragma once

#include "engine/cuda/sm90/tiles.hpp"

namespace samebits::engine::cuda {

inline constexpr std::int64_t kOuterTokens = 128;  // most tokens of a call

// Whether the axis is short and one leaf, both operands lie by columns, and the copy engine can write the
// result.
bool outer_serves(const TileProblem& problem, const Target& target);

// Once on every device, before a launch.
void prepare_outer();

struct OuterResources {
  int multiprocessors = 0;
  cudaStream_t stream = nullptr;
  bool early = false;  // may begin before the kernel in front has ended
};

void outer_store(const TileProblem& problem, const Target& target, const OuterResources& resources);

}  // namespace samebits::engine::cuda
