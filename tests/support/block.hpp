// The block on any layout, its tensors put together again: what the invariance tests compare.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reference/reference.hpp"
#include "samebits/plan.hpp"
#include "support/engines.hpp"
#include "support/matrix.hpp"
#include "support/values.hpp"

namespace samebits::test {

struct BlockInputs {
  Shape shape;
  std::int64_t tokens = 0;
  std::vector<std::uint16_t> x, dy, gate, up, down;
  reference::Inputs view() const {
    return {shape, tokens, x.data(), dy.data(), gate.data(), up.data(), down.data()};
  }
};
BlockInputs random_inputs(Random& random, Values kind, Shape shape, std::int64_t tokens);

enum class TokenSplit { contiguous, zigzag, random };

struct BlockRun {
  Contract contract;
  Layout layout{};
  EngineKind engine = EngineKind::cpu;
  Isa isa = Isa::automatic;  // of the CPU engine
  int threads = 1;           // likewise, a rank
  TokenSplit split = TokenSplit::contiguous;
  std::uint64_t split_seed = 0;         // of a random split
  std::optional<TokenShards> shards{};  // instead of `split`
  DownCut down = DownCut::automatic;
  WeightCut weights = WeightCut::automatic;
  GradientReduction gradients = GradientReduction::automatic;
  CoverExchange covers = CoverExchange::automatic;
  int ranks_per_node = 0;
  std::size_t gradient_bytes = PlanOptions{}.gradient_bytes;
  std::size_t one_shot_bytes = PlanOptions{}.one_shot_bytes;
  Overlap overlap = Overlap::automatic;
  ChunkRule chunks{};
  bool callbacks = false;  // over the callback transport
  bool concurrent = true;  // which then lets its exchanges run beside the computing
  bool played = false;     // on a played device, in the CPU engine's place: tests/support/played_device.hpp
  bool emulated = false;   // on the hip engine's tiles as the host emulates them: emulated_tiles.hpp
  int delays = 0;          // most microseconds before and after an exchange
  std::uint64_t delay_seed = 0;
  Placement placement{};  // of every operand and result
  bool f32_gradients = false;
  bool given_saved = false;  // activations in the caller's memory
  bool recompute = false;    // by a plan that saw no other forward than one without its result
  bool control = false;
};
std::string describe(const BlockRun& run);

struct BlockOutputs {
  std::vector<std::uint16_t> y, training_y, dx, d_gate, d_up, d_down;  // [M, H] and [out, in]
  std::vector<float> d_gate_f32, d_up_f32, d_down_f32;
  // In words: the first rank whose copy of a result differs from another's, elements that arrived from no
  // rank, operands that changed and guards that were overwritten.
  std::string problem;
};
BlockOutputs run_block(const BlockRun& run, const BlockInputs& inputs);

// Fails the current test where two runs differ in a bit.
void expect_same_outputs(const std::string& what, const BlockOutputs& got, const BlockOutputs& expected,
                         const BlockInputs& inputs, bool f32_gradients);

// Fails the current test where the run differs from the reference in a bit.
void expect_equals_reference(const BlockRun& run, const BlockInputs& inputs,
                             const reference::Outputs& expected, const std::string& context);

}  // namespace samebits::test
