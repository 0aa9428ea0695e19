// Calls of a plan on a GPU: batches, streams, threads, graphs, repeats. Who else runs, and how often, moves
// no bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
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

// One digest over a thousand repeats, whatever else the device is doing.
TEST_F(CudaCalls, AThousandRepeatsUnderABusyStream) {
  Random random(36);
  const BusyStream busy(device_index());
  for (const std::string text : {"f32-tree-v1", "bf16-tree-v1", "sm90-v1", "hf-sm90-v1"}) {
    const bool odd = text == "bf16-tree-v1";
    const BlockInputs in =
        random_inputs(random, Values::normal, odd ? Shape{129, 203} : Shape{256, 768}, 200);
    EnginePlan block(cuda_engine(), {parse_contract(text)}, in);
    const cudaStream_t stream = stream_of(block.queue());
    block.run(200);
    const Matrix* const results[] = {&block.y, &block.dx, &block.d_gate, &block.d_up, &block.d_down};
    const auto bytes = [](const Matrix& m) { return static_cast<std::size_t>(m.view().elements()) * 2; };
    std::vector<engine::Memory> kept;
    for (const Matrix* result : results) {
      kept.push_back(cuda_engine()->allocate(bytes(*result)));
      check_cuda(cudaMemcpyAsync(kept.back().get(), result->view().data, bytes(*result),
                                 cudaMemcpyDeviceToDevice, stream));
    }
    const engine::Memory counter = cuda_engine()->allocate(sizeof(unsigned long long));
    auto* const count = static_cast<unsigned long long*>(counter.get());
    check_cuda(cudaMemsetAsync(count, 0, sizeof *count, stream));
    std::set<std::string> digests;
    constexpr int kRepeats = 1000;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      for (const Matrix* result : results)
        check_cuda(cudaMemsetAsync(result->view().data, 0xFF, bytes(*result), stream));
      block.plan.forward(block.forward(200));
      block.plan.backward(block.backward(200));
      for (std::size_t i = 0; i < std::size(results); ++i)
        count_differing_bytes(results[i]->view().data, kept[i].get(), bytes(*results[i]), count, stream);
      if (repeat % 50 != 0) continue;
      const BlockOutputs now = block.outputs();
      digests.insert(digest(host_view(static_cast<const void*>(now.y.data()), 200, in.shape.hidden)) +
                     digest(host_view(static_cast<const void*>(now.dx.data()), 200, in.shape.hidden)) +
                     digest(host_view(static_cast<const void*>(now.d_down.data()), in.shape.hidden,
                                      in.shape.intermediate)));
    }
    unsigned long long differing = 1;
    check_cuda(cudaMemcpyAsync(&differing, count, sizeof differing, cudaMemcpyDeviceToHost, stream));
    block.wait();
    EXPECT_EQ(differing, 0u) << text << ": bytes that differ from the first of " << kRepeats << " runs";
    EXPECT_EQ(digests.size(), 1u) << text;
    expect_same_outputs(text + " after the repeats ", block.outputs(),
                        cpu_outputs(parse_contract(text), in, false), in, false);
  }
}

TEST_F(CudaCalls, NoDeviceMemoryIsTaken) {
  Random random(37);
  for (const std::string& text : kContracts) {
    for (const Shape shape : {kAligned, kOdd}) {
      const BlockInputs in = random_inputs(random, Values::normal, shape, 130);
      EnginePlan block(cuda_engine(), {parse_contract(text)}, in);
      block.run(130);  // kernels are loaded at their first launch
      const std::size_t before = free_device_memory();
      for (const std::int64_t tokens : {130, 1, 64, 0, 129}) {
        block.plan.forward(block.forward(tokens));
        block.plan.backward(block.backward(tokens));
      }
      block.wait();
      EXPECT_EQ(free_device_memory(), before) << text;
    }
  }
}

}  // namespace
}  // namespace samebits::test
