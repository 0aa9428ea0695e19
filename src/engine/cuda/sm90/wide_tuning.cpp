#include <algorithm>
#include <iterator>

#include "engine/cuda/sm90/tensor_map.hpp"
#include "engine/cuda/sm90/wide.hpp"

namespace samebits::engine::cuda {

bool wide_serves(const TileProblem& problem, int levels) {
  for (int lane = 0; lane < problem.lanes; ++lane) {
    const Operand &tokens = problem.left[lane], &weights = problem.right[lane];
    if (tokens.outer > kWideTokens || !is_k_major(tokens) ||
        is_k_major(weights) != is_k_major(problem.right[0]))
      return false;
    if (!is_mappable(tokens, problem.k) || !is_mappable(weights, problem.k)) return false;
  }
  return problem.leaves->count() > 0 && problem.leaves->fits_short() &&
         problem.leaves->levels() + problem.lanes - 1 <= levels;
}

namespace {

// Steps of a block that contracts so many tiles: of all its chains, and of the part that has most.
struct Steps {
  std::int64_t all = 0, longest = 0, chains = 0;
};
Steps steps_of(const TileProblem& problem, int tiles, int parts) {
  std::int64_t of_part[2] = {0, 0};
  int part = 0;
  for (int chain = 0; chain < tiles * problem.lanes; ++chain) {
    for (const LeafStep leaf : problem.leaves->steps()) {
      of_part[part] += groups_of(leaf.length(), 16);
      part = (part + 1) % parts;
    }
  }
  return {of_part[0] + of_part[1], std::max(of_part[0], of_part[1]),
          std::int64_t{tiles} * problem.lanes * problem.leaves->count()};
}

// What a tuning costs: cycles until a step's sum can go on, in which a multiprocessor takes in the
// operands of a step or reads them from its shared memory, and which the end of a chain costs. As an H200 was
// seen to do, one for each of kWideTunings.
struct Cost {
  int latency, moves, end;
};
constexpr Cost kCosts[] = {{72, 72, 1200}, {123, 123, 1200}, {94, 84, 0}};
static_assert(std::size(kCosts) == std::size(kWideTunings));

}  // namespace

WideTuning choose_wide(const TileProblem& problem, const TileDevice& device) {
  WideTuning best;
  std::int64_t least = 0;
  for (std::size_t i = 0; i < std::size(kWideTunings); ++i) {
    const WideTuning& tuning = kWideTunings[i];
    const Cost& cost = kCosts[i];
    const int cluster = static_cast<int>(kWideTokens) / tuning.tokens();
    const int clusters = device.blocks(cluster) / cluster;
    if (clusters == 0) continue;
    const int tiles = groups_of(groups_of(problem.right[0].outer, 64), clusters);
    const Steps steps = steps_of(problem, tiles, tuning.parts);
    const std::int64_t cycles =
        std::max(steps.longest * cost.latency, steps.all * cost.moves) + steps.chains * cost.end;
    if (least != 0 && cycles >= least) continue;
    least = cycles;
    best = tuning;
  }
  return best;
}

}  // namespace samebits::engine::cuda
