// Whatever a choice names, there is a kernel for: a launch that found none would leave a result as it was.
// And one that finds none says so, before it asks a device for anything.
#include "engine/cuda/built_kernels.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/cuda/fma/stream.hpp"
#include "engine/cuda/sm90/stream_sizes.hpp"
#include "engine/cuda/sm90/stream_tuning.hpp"
#include "engine/cuda/sm90/wide.hpp"
#include "samebits/error.hpp"
#include "support/values.hpp"

namespace samebits::test {
namespace {

using namespace engine;
using namespace engine::cuda;

template <class List>
bool has(const List& built, const auto& tuning) {
  return std::find(std::begin(built), std::end(built), tuning) != std::end(built);
}

Leaves random_leaves(Random& random, std::int64_t k) {
  Leaves leaves;
  const auto rule = static_cast<Rule>(uniform(random, 0, 2));
  const std::int64_t value = rule == Rule::halve ? uniform(random, 0, 6) : 16 * uniform(random, 8, 200);
  leaves.reserve({{rule, value}, 16, k, false});
  return leaves;
}

// From a device on which hardly a cluster fits to one larger than any.
TileDevice random_device(Random& random) {
  const int blocks = static_cast<int>(uniform(random, 1, 200));
  return {{blocks, static_cast<int>(uniform(random, 0, blocks / 2)) * 2}};
}

// Sizes of every order of magnitude.
std::int64_t random_size(Random& random, int most_bits) {
  return uniform(random, 1, std::int64_t{1} << uniform(random, 0, most_bits));
}

TEST(BuiltKernels, WhateverTilesAreChosen) {
  Random random(21);
  for (int round = 0; round < 20000; ++round) {
    const std::int64_t rows = random_size(random, 18), cols = random_size(random, 18),
                       k = random_size(random, 18);
    const TileDevice device = random_device(random);
    ASSERT_TRUE(has(kTileWidths, choose_tiles(false, rows, cols, k, device).width));
    ASSERT_TRUE(has(kGateUpTileWidths, choose_tiles(true, rows, cols, k, device).width));
  }
}

TEST(BuiltKernels, WhateverIsChosenForUpTo128Tokens) {
  Random random(22);
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t k = random_size(random, 15);
    const Leaves leaves = random_leaves(random, k);
    TileProblem problem;
    problem.left[0].outer = uniform(random, 1, kWideTokens);
    problem.right[0].outer = random_size(random, 16);
    problem.lanes = static_cast<int>(uniform(random, 1, 2));
    problem.k = k;
    problem.leaves = &leaves;
    ASSERT_TRUE(has(kWideTunings, choose_wide(problem, random_device(random))));
  }
}

TEST(BuiltKernels, EveryCountOfFewTokens) {
  for (std::int64_t tokens = 1; tokens <= kStreamTokens; ++tokens) {
    EXPECT_TRUE(has(stream::kTokenColumns, stream::token_columns(tokens))) << tokens;
  }
}

// Not only what is chosen: every launch that the choice looks at.
TEST(BuiltKernels, WhateverShareOfAnFmaStream) {
  Random random(23);
  int chosen = 0;
  for (int round = 0; round < 600; ++round) {
    const std::int64_t k = random_size(random, 15);
    const Leaves leaves = random_leaves(random, k);
    fma_leaf::StreamProblem problem;
    problem.gate_up = uniform(random, 0, 2) == 0;
    problem.lanes = problem.gate_up ? 1 : static_cast<int>(uniform(random, 1, 2));
    problem.bf16_nodes = uniform(random, 0, 1) == 0;
    problem.k = static_cast<int>(k);
    const bool columns = !problem.gate_up && uniform(random, 0, 1) == 0;
    problem.weight[0].outer = random_size(random, 16);
    problem.weight[0].k_stride = columns ? problem.weight[0].outer + 8 : 1;
    problem.x[0].outer = uniform(random, 1, fma_leaf::kStreamTokens);
    const auto is_built = [&](const fma_leaf::StreamTuning& tuning) {
      const auto in = [&](const auto& built) {
        return std::any_of(std::begin(built), std::end(built), [&](const fma_leaf::StreamShare& share) {
          return share.tokens == tuning.tokens && share.rows == tuning.rows;
        });
      };
      return problem.gate_up ? in(fma_leaf::kGateUpShares)
             : columns       ? in(fma_leaf::kColumnShares)
                             : in(fma_leaf::kRowShares);
    };
    const int multiprocessors = static_cast<int>(uniform(random, 1, 200));
    fma_leaf::for_each_stream(problem, leaves, multiprocessors,
                              [&](const fma_leaf::StreamTuning& tuning, double) {
                                ASSERT_TRUE(is_built(tuning)) << tuning.tokens << " x " << tuning.rows;
                              });
    const fma_leaf::StreamTuning tuning = fma_leaf::choose_stream(problem, leaves, multiprocessors);
    if (tuning.threads() == 0) continue;  // none fits, and none is launched
    ++chosen;
    ASSERT_TRUE(is_built(tuning));
  }
  EXPECT_GT(chosen, 300);
}

// `launch` is told something that no kernel is built for.
template <class Launch>
void expect_refused(const Launch& launch, const std::string& named) {
  try {
    launch();
    FAIL() << "launched, or left out without a word: " << named;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal) << error.what();
    EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
  }
}

TEST(BuiltKernels, NoLaunchIsLeftOutSilently) {
  const Leaves none;
  TileProblem tiles;
  tiles.leaves = &none;
  for (const int lanes : {1, 2}) {
    tiles.lanes = lanes;
    for (const std::int64_t left_k : {1, 8}) {
      for (const std::int64_t right_k : {1, 8}) {
        for (Operand& left : tiles.left) left.k_stride = left_k;
        for (Operand& right : tiles.right) right.k_stride = right_k;
        // 192 columns are for gate and up alone.
        expect_refused([&] { tiles_store(tiles, {}, {192, {}}, {}); }, "192 columns");
      }
    }
    expect_refused([&] { tiles_carry(tiles, {}, {}, {192, {}}, {}); }, "192 columns");
  }
  for (const Swiglu kind : {Swiglu::one, Swiglu::two}) {
    expect_refused([&] { tiles_gate_up(tiles, {}, kind, nullptr, {64, {}}, {}); }, "64 columns");
    expect_refused([&] { tiles_d_act(tiles, {}, kind, nullptr, {192, {}}, {}); }, "192 columns");
  }
  // Two warpgroups of 64 tokens side by side are no tuning, one behind the other are.
  expect_refused([&] { wide_store(tiles, {}, {64, 2, 1, 1}, {}); }, "1 parts of 2 x 64 tokens");
  expect_refused([&] { wide_store(tiles, {}, {32, 2, 1, 1}, {}); }, "1 boxes");

  StreamProblem few;
  few.leaves = &none;
  few.token[0].outer = kStreamTokens + 1;
  for (const int lanes : {1, 2}) {
    few.lanes = lanes;
    for (const std::int64_t k_stride : {1, 8}) {
      few.weight[0].k_stride = k_stride;
      expect_refused([&] { stream_store(few, {}, {}); }, "64 columns of tokens");
    }
  }
  expect_refused([&] { stream_gate_up(few, {}, {}, {}); }, "64 columns of tokens");
  expect_refused([&] { stream_d_act(few, {}, {}, {}); }, "64 columns of tokens");
  expect_refused([&] { stream_gate_up_down(few, {}, few, {}, {}, {}); }, "64 columns of tokens");
  expect_refused([&] { stream_d_act_hidden(few, {}, few, {}, {}, {}); }, "64 columns of tokens");

  fma_leaf::StreamLaunch how;
  for (const fma_leaf::StreamShare share : {fma_leaf::StreamShare{0, 0}, {1, 4}, {2, 1}, {8, 1}, {16, 2}}) {
    how.tuning.tokens = share.tokens;
    how.tuning.rows = share.rows;
    const std::string named = fmt::format("{} tokens x {} rows", share.tokens, share.rows);
    expect_refused([&] { fma_leaf::stream_rows({}, {}, how, nullptr); }, named);
    expect_refused([&] { fma_leaf::stream_columns({}, {}, how, nullptr); }, named);
    expect_refused([&] { fma_leaf::stream_gate_up({}, {}, how, nullptr); }, named);
  }
}

}  // namespace
}  // namespace samebits::test
