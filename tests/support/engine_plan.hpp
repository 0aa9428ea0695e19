// One rank on any engine, operands and results in its memory: a plan that a test calls again and again.
#pragma once

#include <memory>

#include "samebits/plan.hpp"
#include "support/block.hpp"
#include "support/matrix.hpp"

namespace samebits::test {

struct EnginePlanOptions {
  Contract contract;
  Placement placement{};
  bool f32_gradients = false;
  bool backward = true;
};

class EnginePlan {
 public:
  // `inputs.tokens` is the most that a call may have.
  EnginePlan(std::shared_ptr<engine::Engine> engine, const EnginePlanOptions& options,
             const BlockInputs& inputs);

  // Rows [first, first + tokens) of x and dy; results lie at the same rows of y and dx.
  ForwardArgs forward(std::int64_t tokens, std::int64_t first = 0) const;
  BackwardArgs backward(std::int64_t tokens, std::int64_t first = 0) const;

  void poison_results();
  // Poisons, runs forward and backward, waits.
  void run(std::int64_t tokens, std::int64_t first = 0);
  void wait() const { engine_->synchronize(queue()); }

  // All rows of y and dx as they are now, and the gradients in the type that was asked for.
  BlockOutputs outputs() const;
  // Empty where nothing outside the results was written.
  std::string damage() const;

  Queue queue() const { return {queue_.get()}; }
  void take_inputs(const BlockInputs& inputs);  // of the same shape and size

 private:
  std::shared_ptr<engine::Engine> engine_;
  engine::OwnedQueue queue_;

 public:
  Plan plan;
  Matrix x, dy, gate, up, down;
  Matrix y, dx, d_gate, d_up, d_down;
};

// What the CPU engine makes of a block on one rank: the reference for blocks too large to evaluate literally.
BlockOutputs cpu_outputs(const Contract& contract, const BlockInputs& inputs, bool f32_gradients);

// A block of some of the tokens.
BlockInputs tokens_of(const BlockInputs& inputs, std::int64_t first, std::int64_t tokens);

}  // namespace samebits::test
