// Each engine at TP1 against the literal reference: every instruction set, thread count, placement and kind
// of value, at odd sizes around the engine's tile and chunk edges.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "samebits/error.hpp"
#include "support/block.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

reference::Outputs expected_of(const Contract& contract, const BlockInputs& in) {
  return reference::evaluate(contract, reference::trees_of(contract, in.shape, in.tokens), in.view());
}

std::vector<Isa> isas() {
  std::vector<Isa> found;
  for (const Isa isa : {Isa::plain, Isa::avx2, Isa::avx512}) {
    try {
      make_cpu_engine({1, isa});
      found.push_back(isa);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::refused);
    }
  }
  return found;
}

const std::vector<std::string> kContracts = {"bf16-tree-v1",
                                             "f32-tree-v1",
                                             "sm90-v1",
                                             "hf-sm90-v1",
                                             "gfx942-v1",
                                             "bf16-tree-v1,H=max:1,I=max:2,T=max:1",
                                             "sm90-v1,H=max:16,I=block:32,node=bf16",
                                             "sm90-v1,I=halve:4,T=block:256",
                                             "hf-sm90-v1,I=halve:2"};

// The ways to compute a block on one rank: instruction sets of the CPU, placements of operands on a GPU,
// whose fast kernels want aligned rows.
std::vector<BlockRun> ways(EngineKind engine, const Contract& contract) {
  std::vector<BlockRun> ways;
  BlockRun run;
  run.contract = contract;
  run.engine = engine;
  if (engine == EngineKind::cpu) {
    for (const Isa isa : isas()) {
      run.isa = isa;
      run.threads = isa == Isa::plain ? 1 : 3;
      ways.push_back(run);
    }
    return ways;
  }
  for (const Placement placement : {Placement{}, Placement{5, 0}, Placement{8, 0}, Placement{0, 1}}) {
    run.placement = placement;
    ways.push_back(run);
  }
  return ways;
}

using Engine = OnEngine;
INSTANTIATE_TEST_SUITE_P(, Engine, every_engine(), engine_name);

TEST_P(Engine, EveryInstructionSetOnEveryKindOfValue) {
  Random random(11);
  for (const std::string& text : kContracts) {
    const Contract contract = parse_contract(text);
    if (!runs(engine(), contract)) continue;
    for (const Values kind : kAllValues) {
      const BlockInputs in = random_inputs(random, kind, {uniform(random, 17, 50), uniform(random, 33, 70)},
                                           uniform(random, 17, 40));
      const reference::Outputs expected = expected_of(contract, in);
      for (BlockRun run : ways(engine(), contract)) {
        run.f32_gradients = kind == Values::normal;
        expect_equals_reference(run, in, expected, name_of(kind));
      }
    }
  }
}

// Contractions longer than a chunk of prepared operands, in one leaf and in many.
TEST_P(Engine, LongAxes) {
  Random random(12);
  for (const std::string text : {"bf16-tree-v1", "f32-tree-v1,T=block:48", "hf-sm90-v1", "gfx942-v1"}) {
    const Contract contract = parse_contract(text);
    if (!runs(engine(), contract)) continue;
    const BlockInputs in = random_inputs(random, Values::cancelling, {1041, 19}, 5);
    const BlockInputs wide = random_inputs(random, Values::normal, {7, 1203}, 3);
    const BlockInputs many = random_inputs(random, Values::normal, {5, 18}, 1100);
    for (const BlockInputs* inputs : {&in, &wide, &many}) {
      const reference::Outputs expected = expected_of(contract, *inputs);
      for (const BlockRun& run : ways(engine(), contract)) {
        expect_equals_reference(run, *inputs, expected, "long axes");
      }
    }
  }
}

// A row's bits do not depend on the rows beside it.
TEST_P(Engine, AnyBatchThatHoldsTheRow) {
  Random random(14);
  for (const std::string& text : kContracts) {
    const Contract contract = parse_contract(text);
    if (!runs(engine(), contract)) continue;
    const BlockInputs in = random_inputs(random, Values::normal, {40, 72}, 70);
    BlockRun run;
    run.contract = contract;
    run.engine = engine();
    const BlockOutputs whole = run_block(run, in);
    for (const std::int64_t count : {1, 2, 15, 33, 69}) {
      const std::int64_t first = uniform(random, 0, in.tokens - count);
      BlockInputs part = in;
      part.tokens = count;
      part.x.assign(in.x.begin() + first * 40, in.x.begin() + (first + count) * 40);
      part.dy.assign(in.dy.begin() + first * 40, in.dy.begin() + (first + count) * 40);
      const BlockOutputs alone = run_block(run, part);
      expect_same_bits(text + " y", alone.y.data(), whole.y.data() + first * 40, count, 40);
      expect_same_bits(text + " dx", alone.dx.data(), whole.dx.data() + first * 40, count, 40);
    }
  }
}

}  // namespace
}  // namespace samebits::test
