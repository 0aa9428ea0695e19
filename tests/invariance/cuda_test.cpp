// The CUDA engine against the CPU engine, bit for bit: shapes around the edges of tiles, every kind of value,
// every placement, every layout, contractions of many pipeline turns.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/block.hpp"
#include "support/engine_plan.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

const std::vector<std::string> kContracts = {
    "bf16-tree-v1",
    "f32-tree-v1",
    "sm90-v1",
    "hf-sm90-v1",
    "bf16-tree-v1,H=max:1,I=max:2,T=max:1",
    "f32-tree-v1,T=block:32,I=block:24,lanes=bf16,swiglu=two,sigma=cuda",
    "sm90-v1,H=max:16,I=block:32,node=bf16",
    "sm90-v1,I=halve:4,T=block:256",
    "sm90-v1,T=block:64",
    "hf-sm90-v1,I=halve:2"};
const std::vector<std::string> kPresets = {"bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1"};

// Around the edges of tiles of 64, 128 and 256, and of the groups that kernels load at once.
const std::vector<std::int64_t> kTokens = {0,  1,  2,   7,   8,   9,   15,  16,  17,  31,  32,  33, 63,
                                           64, 65, 127, 128, 129, 130, 255, 256, 257, 300, 512, 513};
const std::vector<std::int64_t> kOddSizes = {1,  3,   7,   9,   17,  31,  33,  63, 65,
                                             91, 127, 129, 203, 255, 257, 383, 385};
const std::vector<std::int64_t> kAlignedSizes = {8,   16,  24,  40,  64,  72,  104, 120, 128,
                                                 136, 192, 200, 256, 264, 320, 384, 392};
const std::vector<std::int64_t> kTiledSizes = {64, 128, 192, 256, 320, 384, 512};

// Aligned rows for the fast kernels, padded rows as in a slice of a wider matrix, and rows that only the
// plain kernels take.
const std::vector<Placement> kPlacements = {{0, 0}, {8, 0}, {64, 8}, {5, 0}, {0, 1}, {8, 3}};

const std::vector<std::string> kLayouts = {"tp1", "tp2",     "tp2+sp",     "tp4", "tp4+sp",
                                           "cp2", "tp2+cp2", "tp2+cp2+sp", "cp3"};

template <class T>
T pick(Random& random, const std::vector<T>& from) {
  return from[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int64_t>(from.size()) - 1))];
}

int rounds(int usual) {
  const char* const text = std::getenv("SAMEBITS_ROUNDS");
  return text != nullptr ? std::atoi(text) : usual;
}

Shape random_shape(Random& random) {
  const std::int64_t kind = uniform(random, 0, 9);
  if (kind < 3) return {pick(random, kTiledSizes), pick(random, kTiledSizes)};
  if (kind < 7) return {pick(random, kAlignedSizes), pick(random, kAlignedSizes)};
  if (kind < 8) return {pick(random, kAlignedSizes), pick(random, kOddSizes)};
  return {pick(random, kOddSizes),
          uniform(random, 0, 1) == 0 ? pick(random, kOddSizes) : pick(random, kAlignedSizes)};
}

std::string name_of(const BlockInputs& in, Values kind) {
  return fmt::format("{} {}x{}x{}", test::name_of(kind), in.shape.hidden, in.shape.intermediate, in.tokens);
}

BlockRun on_cuda(const std::string& contract) {
  BlockRun run;
  run.contract = parse_contract(contract);
  run.engine = EngineKind::cuda;
  return run;
}

void expect_equals_cpu(const BlockRun& run, const BlockInputs& in, const BlockOutputs& expected,
                       const std::string& context) {
  expect_same_outputs(context + ": " + describe(run) + ": ", run_block(run, in), expected, in,
                      run.f32_gradients);
}

using Cuda = OnCuda;

// SAMEBITS_ROUNDS=n runs longer.
TEST_F(Cuda, RandomShapesPlacementsAndValues) {
  for (int round = 0; round < rounds(400); ++round) {
    Random random(5000 + round);
    BlockRun run = on_cuda(pick(random, kContracts));
    const Values kind = kAllValues[uniform(random, 0, 5)];
    const BlockInputs in = random_inputs(random, kind, random_shape(random), pick(random, kTokens));
    run.f32_gradients = uniform(random, 0, 2) == 0;
    const BlockOutputs expected = cpu_outputs(run.contract, in, run.f32_gradients);
    for (int variant = 0; variant < 2; ++variant) {
      run.placement = variant == 0 ? Placement{} : pick(random, kPlacements);
      expect_equals_cpu(run, in, expected, fmt::format("round {} {}", round, name_of(in, kind)));
      if (HasFailure()) return;  // one block says enough
    }
  }
}

TEST_F(Cuda, RandomLayoutsCutsAndReductions) {
  for (int round = 0; round < rounds(150); ++round) {
    Random random(7000 + round);
    BlockRun run = on_cuda(pick(random, kContracts));
    const Values kind = kAllValues[uniform(random, 0, 5)];
    const BlockInputs in = random_inputs(random, kind, random_shape(random), pick(random, kTokens));
    run.f32_gradients = uniform(random, 0, 2) == 0;
    const BlockOutputs expected = cpu_outputs(run.contract, in, run.f32_gradients);
    run.given_saved = uniform(random, 0, 1) == 0;
    run.recompute = uniform(random, 0, 2) == 0;
    for (int variant = 0; variant < 3; ++variant) {
      run.layout = parse_layout(pick(random, kLayouts));
      run.split = pick<TokenSplit>(random, {TokenSplit::contiguous, TokenSplit::zigzag, TokenSplit::random});
      run.split_seed = random();
      run.down = pick<DownCut>(random, {DownCut::automatic, DownCut::rows});
      run.gradients =
          pick<GradientReduction>(random, {GradientReduction::automatic, GradientReduction::gather_tokens});
      run.covers = pick<CoverExchange>(
          random, {CoverExchange::automatic, CoverExchange::one_shot, CoverExchange::slice_owner});
      run.placement = pick(random, kPlacements);
      run.callbacks = uniform(random, 0, 5) == 0;
      expect_equals_cpu(run, in, expected, fmt::format("round {} {}", round, name_of(in, kind)));
      if (HasFailure()) return;
    }
  }
}

TEST_F(Cuda, EveryTokenCountAroundTileEdges) {
  Random random(21);
  for (const std::string& text : kPresets) {
    for (const Shape shape : {Shape{128, 384}, Shape{200, 136}, Shape{63, 129}}) {
      for (const std::int64_t tokens : kTokens) {
        const BlockInputs in = random_inputs(random, Values::cancelling, shape, tokens);
        const BlockRun run = on_cuda(text);
        expect_equals_cpu(run, in, cpu_outputs(run.contract, in, false), name_of(in, Values::cancelling));
      }
    }
  }
}

TEST_F(Cuda, EveryKindOfValue) {
  Random random(22);
  for (const std::string& text : kContracts) {
    for (const Values kind : kAllValues) {
      for (const bool f32 : {false, true}) {
        const BlockInputs in = random_inputs(random, kind, {192, 320}, f32 ? 24 : 150);
        BlockRun run = on_cuda(text);
        run.f32_gradients = f32;
        expect_equals_cpu(run, in, cpu_outputs(run.contract, in, f32), name_of(in, kind));
      }
    }
  }
}

// All cuts and reductions at a shape whose shards keep aligned rows, so that the fast kernels make covers
// too.
TEST_F(Cuda, EveryNamedLayout) {
  Random random(23);
  for (const std::string text :
       {"bf16-tree-v1", "f32-tree-v1,T=block:64", "sm90-v1,T=block:64", "hf-sm90-v1"}) {
    const BlockInputs in = random_inputs(random, Values::normal, {256, 512}, 256);
    const BlockOutputs expected = cpu_outputs(parse_contract(text), in, false);
    for (const std::string& layout : kLayouts) {
      for (const DownCut down : {DownCut::automatic, DownCut::rows}) {
        for (const TokenSplit split : {TokenSplit::contiguous, TokenSplit::zigzag}) {
          BlockRun run = on_cuda(text);
          run.layout = parse_layout(layout);
          run.down = down;
          run.split = split;
          expect_equals_cpu(run, in, expected, "named layouts");
        }
      }
    }
  }
}

// Leaf-aligned shards: covers of weight gradients cross context ranks.
TEST_F(Cuda, GradientCoversCrossContextRanks) {
  Random random(24);
  for (const std::string text : {"f32-tree-v1,T=block:64", "bf16-tree-v1,T=block:32", "sm90-v1,T=block:64"}) {
    const Contract contract = parse_contract(text);
    const std::int64_t leaf = contract.tokens.value, tokens = 5 * leaf + 8;
    const BlockInputs in = random_inputs(random, Values::normal, {128, 192}, tokens);
    for (const int cp : {2, 3}) {
      for (const int tp : {1, 2}) {
        std::vector<std::vector<Interval>> of_rank(static_cast<std::size_t>(cp));
        for (std::int64_t at = 0, turn = 0; at < tokens; ++turn) {
          const std::int64_t end = std::min(tokens, at + leaf * (1 + turn % 2));
          of_rank[static_cast<std::size_t>(turn % cp)].push_back({at, end});
          at = end;
        }
        BlockRun run = on_cuda(text);
        run.layout = {tp, cp, false};
        run.shards = TokenShards::of(of_rank);
        run.gradients = GradientReduction::exchange_covers;
        run.f32_gradients = tp == 2;
        expect_equals_cpu(run, in, cpu_outputs(contract, in, run.f32_gradients), "gradient covers");
      }
    }
  }
}

// Every axis long enough for many turns of a pipeline, and results of many tiles.
TEST_F(Cuda, MediumBlocks) {
  Random random(25);
  for (const std::string& text : kPresets) {
    for (const Values kind : {Values::normal, Values::cancelling}) {
      const BlockInputs in = random_inputs(random, kind, {1024, 3072}, kind == Values::normal ? 300 : 77);
      const BlockRun run = on_cuda(text);
      expect_equals_cpu(run, in, cpu_outputs(run.contract, in, false), name_of(in, kind));
    }
  }
}

TEST_F(Cuda, LongAxes) {
  Random random(26);
  for (const std::string& text : kPresets) {
    for (const Shape shape : {Shape{4104, 200}, Shape{136, 6152}, Shape{2049, 33}}) {
      for (const std::int64_t tokens : {1, 17, 70, 131}) {
        const BlockInputs in = random_inputs(random, Values::cancelling, shape, tokens);
        BlockRun run = on_cuda(text);
        run.f32_gradients = true;
        expect_equals_cpu(run, in, cpu_outputs(run.contract, in, true), name_of(in, Values::cancelling));
      }
    }
    const BlockInputs many = random_inputs(random, Values::cancelling, {128, 72}, 5003);
    BlockRun run = on_cuda(text);
    run.f32_gradients = true;
    expect_equals_cpu(run, many, cpu_outputs(run.contract, many, true), name_of(many, Values::cancelling));
  }
}

// More rows of a weight than fill the device's multiprocessors once: shares of a block of every size, several
// tiles a block.
TEST_F(Cuda, WideAxes) {
  Random random(27);
  for (const std::string text : {"bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1"}) {
    for (const Shape shape : {Shape{64, 3200}, Shape{72, 16936}, Shape{16936, 72}, Shape{5128, 136}}) {
      for (const std::int64_t tokens : {1, 8, 9, 32, 33, 64, 128, 129, 257, 700}) {
        const BlockInputs in = random_inputs(random, Values::normal, shape, tokens);
        const BlockRun run = on_cuda(text);
        expect_equals_cpu(run, in, cpu_outputs(run.contract, in, false), name_of(in, Values::normal));
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace samebits::test
