// Calls of a plan on a GPU: batches, streams, threads, graphs, repeats. Who else runs, and how often, moves
// no bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "samebits/digest.hpp"
#include "support/device.hpp"
#include "support/engine_plan.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

const std::vector<std::string> kContracts = {"bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1",
                                             "sm90-v1,I=max:64,node=bf16"};
constexpr Shape kAligned{128, 384}, kOdd{63, 129};

using CudaCalls = OnCuda;

int device_index() { return cuda_engine()->device().index; }

TEST_F(CudaCalls, EveryBatchThatHoldsTheRow) {
  Random random(31);
  constexpr std::int64_t kMost = 140;
  for (const std::string& text : kContracts) {
    for (const Shape shape : {kAligned, kOdd}) {
      const BlockInputs in = random_inputs(random, Values::normal, shape, kMost);
      EnginePlan block(cuda_engine(), {parse_contract(text)}, in);
      block.run(kMost);
      const BlockOutputs whole = block.outputs();
      expect_same_outputs(text + " ", whole, cpu_outputs(parse_contract(text), in, false), in, false);
      for (std::int64_t tokens = 0; tokens < kMost; ++tokens) {
        const std::int64_t first = tokens % 3 == 0 ? uniform(random, 0, kMost - tokens) : 0;
        block.poison_results();
        block.plan.forward(block.forward(tokens, first));
        BackwardArgs backward = block.backward(tokens, first);
        backward.d_gate = backward.d_up = backward.d_down = {};
        block.plan.backward(backward);
        const BlockOutputs some = block.outputs();
        const std::int64_t at = first * shape.hidden;
        const std::string what = fmt::format("{} tokens [{}, {}) ", text, first, first + tokens);
        EXPECT_EQ(some.problem, "") << what;
        expect_same_bits(what + "y", some.y.data() + at, whole.y.data() + at, tokens, shape.hidden);
        expect_same_bits(what + "dx", some.dx.data() + at, whole.dx.data() + at, tokens, shape.hidden);
        const std::vector<std::uint16_t> poison(static_cast<std::size_t>(kMost * shape.hidden), 0xFFFF);
        const std::int64_t after = (first + tokens) * shape.hidden, left = kMost - first - tokens;
        expect_same_bits(what + "rows before", some.y.data(), poison.data(), first, shape.hidden);
        expect_same_bits(what + "rows after", some.y.data() + after, poison.data(), left, shape.hidden);
        expect_same_bits(what + "dx rows after", some.dx.data() + after, poison.data(), left, shape.hidden);
        if (HasFailure()) return;
      }
    }
  }
}

// The weight gradients of any part of the tokens, from the plan that was made for more.
TEST_F(CudaCalls, EveryGradientOfFewerTokens) {
  Random random(32);
  for (const std::string& text : kContracts) {
    const BlockInputs in = random_inputs(random, Values::cancelling, kAligned, 200);
    EnginePlan block(cuda_engine(), {parse_contract(text), {}, true}, in);
    for (const std::int64_t tokens : {200, 0, 1, 15, 16, 17, 64, 100, 129, 199}) {
      const std::int64_t first = uniform(random, 0, 200 - tokens);
      const BlockInputs part = tokens_of(in, first, tokens);
      const BlockOutputs expected = cpu_outputs(parse_contract(text), part, true);
      block.run(tokens, first);
      const BlockOutputs got = block.outputs();
      const std::string what = fmt::format("{} tokens [{}, {}) ", text, first, first + tokens);
      expect_same_bits(what + "d_gate", got.d_gate_f32, expected.d_gate_f32, 384, 128);
      expect_same_bits(what + "d_up", got.d_up_f32, expected.d_up_f32, 384, 128);
      expect_same_bits(what + "d_down", got.d_down_f32, expected.d_down_f32, 128, 384);
    }
  }
}

TEST_F(CudaCalls, DxOrGradientsAlone) {
  Random random(33);
  for (const std::string& text : kContracts) {
    const BlockInputs in = random_inputs(random, Values::normal, kAligned, 70);
    EnginePlan block(cuda_engine(), {parse_contract(text)}, in);
    block.run(70);
    const BlockOutputs both = block.outputs();
    block.poison_results();
    block.plan.forward(block.forward(70));
    BackwardArgs only = block.backward(70);
    only.dx = {};
    block.plan.backward(only);
    only = block.backward(70);
    only.d_gate = only.d_up = only.d_down = {};
    block.plan.backward(only);
    expect_same_outputs(text + " apart ", block.outputs(), both, in, false);
  }
}

// Plans of other contracts and shapes, each on its own stream and thread, with nothing between their calls.
TEST_F(CudaCalls, SeveralPlansAtOnce) {
  constexpr int kThreads = 6, kTurns = 25;
  std::vector<BlockInputs> inputs;
  std::vector<std::unique_ptr<EnginePlan>> plans;
  std::vector<BlockOutputs> expected;
  Random random(34);
  for (int t = 0; t < kThreads; ++t) {
    const Contract contract = parse_contract(kContracts[static_cast<std::size_t>(t) % kContracts.size()]);
    inputs.push_back(
        random_inputs(random, Values::normal, t == 5 ? kOdd : Shape{128 + 64 * t, 384 - 56 * t}, 150 + t));
    plans.push_back(std::make_unique<EnginePlan>(cuda_engine(), EnginePlanOptions{contract}, inputs.back()));
    expected.push_back(cpu_outputs(contract, inputs.back(), false));
  }
  std::vector<std::thread> threads;
  std::vector<BlockOutputs> got(kThreads);
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      try {
        EnginePlan& block = *plans[t];
        for (int turn = 0; turn < kTurns; ++turn) {
          block.plan.forward(block.forward(turn));  // another call in between
          block.plan.forward(block.forward(inputs[t].tokens));
          block.plan.backward(block.backward(inputs[t].tokens));
        }
        got[t] = block.outputs();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "plan " << t << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < kThreads; ++t)
    expect_same_outputs(fmt::format("plan {} ", t), got[t], expected[t], inputs[t], false);

  // From one thread, in turns.
  for (auto& block : plans) block->poison_results();
  for (std::size_t t = 0; t < kThreads; ++t) plans[t]->plan.forward(plans[t]->forward(inputs[t].tokens));
  for (std::size_t t = 0; t < kThreads; ++t) plans[t]->plan.backward(plans[t]->backward(inputs[t].tokens));
  for (std::size_t t = 0; t < kThreads; ++t)
    expect_same_outputs(fmt::format("plan {} in turns ", t), plans[t]->outputs(), expected[t], inputs[t],
                        false);
}

// Capture succeeds only where nothing allocates, waits or copies from pageable memory.
TEST_F(CudaCalls, AGraphReplaysOnFreshInputs) {
  Random random(35);
  for (const std::string& text : kContracts) {
    for (const Shape shape : {kAligned, kOdd}) {
      for (const bool backward : {false, true}) {
        const Contract contract = parse_contract(text);
        const BlockInputs first = random_inputs(random, Values::normal, shape, 130);
        EnginePlan block(cuda_engine(), {contract}, first);
        Captured graph(stream_of(block.queue()), [&] {
          block.plan.forward(block.forward(130));
          if (backward) block.plan.backward(block.backward(130));
        });
        EXPECT_GT(graph.nodes(), 0u);
        const auto expect_replay = [&](const BlockInputs& now, const std::string& what) {
          block.poison_results();
          graph.launch();
          block.wait();
          const BlockOutputs got = block.outputs(), expected = cpu_outputs(contract, now, false);
          if (backward) {
            expect_same_outputs(what, got, expected, now, false);
          } else {
            expect_same_bits(what + "y", got.y, expected.y, 130, shape.hidden);
          }
        };
        for (int turn = 0; turn < 3; ++turn) {
          const BlockInputs fresh = random_inputs(random, Values::cancelling, shape, 130);
          block.take_inputs(fresh);
          expect_replay(fresh, fmt::format("{} graph, turn {}, ", text, turn));
          if (turn < 2) continue;
          block.run(17);  // an eager call between replays
          expect_replay(fresh, text + " graph, after an eager call, ");
        }
      }
    }
  }
}

std::size_t bytes_of(const Matrix& matrix) {
  return static_cast<std::size_t>(matrix.view().elements()) * size_of(matrix.view().dtype);
}

// Two blocks of one shape on one plan, in turn; their results, kept on the device, are what a thousand
// repeats are compared with there. In turn, so that a kernel that reads what the one in front has yet to
// write finds the other block's. Weights lie in one place, where the stream itself puts them, as an optimizer
// would.
class Repeats {
 public:
  Repeats(EnginePlan& block, const BlockInputs& first, const BlockInputs& second)
      : block_(block), tokens_(first.tokens), counter_(cuda_engine()->allocate(sizeof(unsigned long long))) {
    check_cuda(cudaMemsetAsync(counter_.get(), 0, sizeof(unsigned long long), stream()));
    for (const bool other : {false, true}) {
      block_.take_inputs(other ? second : first);
      keep(given_[other], {operands_, 5});
    }
    for (const bool other : {false, true}) {
      run(other);
      keep(results_of_[other], {results_, 5});
    }
  }
  void run(bool other) {
    for (const Matrix* result : results_)
      check_cuda(cudaMemsetAsync(result->view().data, 0xFF, bytes_of(*result), stream()));
    for (std::size_t i = 0; i < std::size(operands_); ++i)
      copy(operands_[i]->view().data, given_[other][i].get(), bytes_of(*operands_[i]));
    block_.plan.forward(block_.forward(tokens_));
    block_.plan.backward(block_.backward(tokens_));
  }
  void compare(bool other) {
    for (std::size_t i = 0; i < std::size(results_); ++i) {
      count_differing_bytes(results_[i]->view().data, results_of_[other][i].get(), bytes_of(*results_[i]),
                            static_cast<unsigned long long*>(counter_.get()), stream());
    }
  }
  unsigned long long differing_bytes() {
    unsigned long long differing = 1;
    check_cuda(
        cudaMemcpyAsync(&differing, counter_.get(), sizeof differing, cudaMemcpyDeviceToHost, stream()));
    block_.wait();
    return differing;
  }

 private:
  cudaStream_t stream() const { return stream_of(block_.queue()); }
  void copy(void* to, const void* from, std::size_t bytes) {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()));
  }
  void keep(std::vector<engine::Memory>& kept, std::span<const Matrix* const> matrices) {
    for (const Matrix* matrix : matrices) {
      kept.push_back(cuda_engine()->allocate(bytes_of(*matrix)));
      copy(kept.back().get(), matrix->view().data, bytes_of(*matrix));
    }
  }

  EnginePlan& block_;
  std::int64_t tokens_;
  engine::Memory counter_;
  const Matrix* operands_[5] = {&block_.x, &block_.dy, &block_.gate, &block_.up, &block_.down};
  const Matrix* results_[5] = {&block_.y, &block_.dx, &block_.d_gate, &block_.d_up, &block_.d_down};
  std::vector<engine::Memory> given_[2], results_of_[2];
};

std::string digest_of(const BlockOutputs& out, const BlockInputs& in) {
  const auto one = [](const std::vector<std::uint16_t>& data, std::int64_t rows, std::int64_t cols) {
    return digest(host_view(static_cast<const void*>(data.data()), rows, cols));
  };
  return one(out.y, in.tokens, in.shape.hidden) + one(out.dx, in.tokens, in.shape.hidden) +
         one(out.d_gate, in.shape.intermediate, in.shape.hidden) +
         one(out.d_up, in.shape.intermediate, in.shape.hidden) +
         one(out.d_down, in.shape.hidden, in.shape.intermediate);
}

// One digest over a thousand repeats, whatever else the device is doing.
TEST_F(CudaCalls, AThousandRepeatsUnderABusyStream) {
  constexpr int kRepeats = 1000;
  Random random(36);
  const BusyStream busy(device_index());
  for (const std::string text : {"bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1"}) {
    for (const auto& [shape, tokens] :
         {std::pair{Shape{256, 768}, std::int64_t{200}}, std::pair{Shape{256, 768}, std::int64_t{24}},
          std::pair{Shape{1024, 1536}, std::int64_t{1}}, std::pair{Shape{129, 203}, std::int64_t{65}}}) {
      const BlockInputs in = random_inputs(random, Values::normal, shape, tokens);
      const BlockInputs second = random_inputs(random, Values::normal, shape, tokens);
      EnginePlan block(cuda_engine(), {parse_contract(text)}, in);
      Repeats repeats(block, in, second);
      std::set<std::string> digests[2];
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        const bool other = repeat % 2 != 0;
        repeats.run(other);
        repeats.compare(other);
        if (repeat % 50 < 2) digests[other].insert(digest_of(block.outputs(), in));
      }
      const std::string what = fmt::format("{} {}x{}x{} ", text, shape.hidden, shape.intermediate, tokens);
      EXPECT_EQ(repeats.differing_bytes(), 0u) << what << "bytes that differ from the first of " << kRepeats;
      EXPECT_EQ(digests[0].size(), 1u) << what;
      EXPECT_EQ(digests[1].size(), 1u) << what;
      repeats.run(false);
      expect_same_outputs(what, block.outputs(), cpu_outputs(parse_contract(text), in, false), in, false);
      repeats.run(true);
      expect_same_outputs(what, block.outputs(), cpu_outputs(parse_contract(text), second, false), in, false);
    }
  }
}

// Blocks behind one another, each the input of the next, forward and back, with nothing between the calls.
TEST_F(CudaCalls, LayersInOneStream) {
  constexpr int kLayers = 4;
  Random random(38);
  for (const std::string& text : kContracts) {
    for (const std::int64_t tokens : {1, 24, 130, 300}) {
      const Contract contract = parse_contract(text);
      std::vector<BlockInputs> layers;
      std::vector<BlockOutputs> expected(kLayers);
      std::vector<std::unique_ptr<EnginePlan>> plans;
      for (int l = 0; l < kLayers; ++l) {
        layers.push_back(random_inputs(random, Values::normal, kAligned, tokens));
        for (auto* weight : {&layers.back().gate, &layers.back().up, &layers.back().down}) {
          for (std::uint16_t& value : *weight)
            value = static_cast<std::uint16_t>(value - (3 << 7));  // stays finite
        }
        plans.push_back(
            std::make_unique<EnginePlan>(cuda_engine(), EnginePlanOptions{contract}, layers.back()));
        if (l > 0) layers[static_cast<std::size_t>(l)].x = expected[static_cast<std::size_t>(l) - 1].y;
        expected[static_cast<std::size_t>(l)] = cpu_outputs(contract, layers.back(), false);
      }
      for (std::size_t l = kLayers; l-- > 0;) {
        if (l + 1 < kLayers) layers[l].dy = expected[l + 1].dx;
        expected[l] = cpu_outputs(contract, layers[l], false);
      }
      const Queue queue = plans[0]->queue();
      for (int repeat = 0; repeat < 5; ++repeat) {
        for (auto& layer : plans) layer->poison_results(), layer->wait();
        for (std::size_t l = 0; l < kLayers; ++l) {
          ForwardArgs args = plans[l]->forward(tokens);
          if (l > 0) args.x = plans[l - 1]->y.view();
          args.queue = queue;
          plans[l]->plan.forward(args);
        }
        for (std::size_t l = kLayers; l-- > 0;) {
          BackwardArgs args = plans[l]->backward(tokens);
          if (l > 0) args.x = plans[l - 1]->y.view();
          if (l + 1 < kLayers) args.dy = plans[l + 1]->dx.view();
          args.queue = queue;
          plans[l]->plan.backward(args);
        }
        plans[0]->wait();
        for (std::size_t l = 0; l < kLayers; ++l) {
          const std::string what = fmt::format("{} {} tokens, layer {} ", text, tokens, l);
          expect_same_outputs(what, plans[l]->outputs(), expected[l], layers[l], false);
        }
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(CudaCalls, NoDeviceMemoryIsTaken) {
  Random random(37);
  for (const std::string& text : kContracts) {
    for (const Shape shape : {kAligned, kOdd}) {
      const BlockInputs in = random_inputs(random, Values::normal, shape, 130);
      EnginePlan block(cuda_engine(), {parse_contract(text)}, in);
      const auto call = [&] {
        for (const std::int64_t tokens : {130, 1, 64, 0, 129}) {
          block.plan.forward(block.forward(tokens));
          block.plan.backward(block.backward(tokens));
        }
        block.wait();
      };
      call();  // kernels are loaded at their first launch
      const std::size_t before = free_device_memory();
      call();
      EXPECT_EQ(free_device_memory(), before) << text;
    }
  }
}

}  // namespace
}  // namespace samebits::test
