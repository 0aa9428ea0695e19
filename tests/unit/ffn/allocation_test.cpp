// After a plan exists, forward and backward allocate nothing: operator new is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "samebits/accumulator.hpp"
#include "support/engine_plan.hpp"
#include "support/small_plan.hpp"

namespace {
std::atomic<std::int64_t> allocations = 0;
}  // namespace

// Not inlined, so that the compiler does not hold malloc against the delete that it knows.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace samebits::test {
namespace {

TEST(Allocation, NoneAfterThePlanOnOneRank) {
  for (const char* contract : {"bf16-tree-v1", "sm90-v1,T=block:16", "f32-tree-v1,H=max:1,I=max:3,T=max:1"}) {
    SmallPlan small(70, contract);
    const auto forward = small.forward(70);
    const auto backward = small.backward(70);
    const auto fewer = small.forward(33);
    const auto fewer_back = small.backward(33);
    const std::int64_t before = allocations;
    for (int repeat = 0; repeat < 3; ++repeat) {
      small.plan.forward(forward);
      small.plan.backward(backward);
      small.plan.forward(fewer);
      small.plan.backward(fewer_back);
    }
    EXPECT_EQ(allocations - before, 0) << contract;
  }
}

TEST(Allocation, NoneWhereGradientsAccumulate) {
  for (const char* contract : {"bf16-tree-v1,T=block:16", "sm90-v1,T=block:16", "hf-sm90-v1"}) {
    SmallPlan small(64, contract);
    GradientAccumulator sum(small.plan, {.max_tokens = 1000});
    auto backward = small.backward(48);
    const Gradients out{backward.d_gate, backward.d_up, backward.d_down};
    backward.d_gate = backward.d_up = backward.d_down = {};
    backward.accumulate = &sum;
    small.plan.forward(small.forward(48));
    const std::int64_t before = allocations;
    for (int repeat = 0; repeat < 2; ++repeat) {
      for (int call = 0; call < 20; ++call) small.plan.backward(backward);
      sum.finish(out);
    }
    EXPECT_EQ(allocations - before, 0) << contract;
  }
}

// Between ranks too: collectives of the local transport post pointers.
TEST(Allocation, NoneAfterThePlansOnFourRanks) {
  for (const bool sequence_parallel : {false, true}) {
    for (const char* contract : {"bf16-tree-v1,T=block:8", "hf-sm90-v1"}) {
      std::atomic<std::int64_t> during = 0;
      std::atomic<int> ready = 0, done = 0;
      run_local(4, [&](int, const std::shared_ptr<Transport>& transport) {
        PlanOptions options = SmallPlan::make_options(32, contract, {24, 48});
        options.layout = {2, 2, sequence_parallel};
        options.chunks = {3, 4, 1};  // small calls go in chunks too
        options.transport = transport;
        options.engine = make_cpu_engine({1, Isa::automatic});
        Plan plan(options);
        SmallPlan data(32);
        const std::int64_t rows = sequence_parallel ? 8 : 16, held = plan.shard().intermediate.length();
        ForwardArgs forward = data.forward(rows);
        forward.tokens = 32;
        forward.weights = plan.slice(data.weight(data.in.gate, false), data.weight(data.in.up, false),
                                     data.weight(data.in.down, true));
        BackwardArgs backward = data.backward(rows);
        backward.tokens = 32;
        backward.weights = forward.weights;
        backward.d_gate = backward.d_gate.slice_rows(0, held);
        backward.d_up = backward.d_up.slice_rows(0, held);
        backward.d_down = backward.d_down.slice_cols(0, held);
        plan.forward(forward);
        plan.backward(backward);
        ++ready;
        while (ready < 4) std::this_thread::yield();
        const std::int64_t before = allocations;
        ++ready;
        while (ready < 8) std::this_thread::yield();
        plan.forward(forward);
        plan.backward(backward);
        ++done;
        while (done < 4) std::this_thread::yield();
        during += allocations - before;
      });
      EXPECT_EQ(during, 0) << contract << (sequence_parallel ? " sp" : "");
    }
  }
}

using AllocationOnAGpu = OnCuda;

TEST_F(AllocationOnAGpu, NoneAfterThePlan) {
  Random random(8);
  for (const char* contract : {"bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1"}) {
    for (const Shape shape : {Shape{128, 192}, Shape{33, 47}}) {
      const BlockInputs in = random_inputs(random, Values::normal, shape, 130);
      EnginePlan block(cuda_engine(), {parse_contract(contract)}, in);
      const auto call = [&] {
        for (const std::int64_t tokens : {130, 1, 33}) {
          block.plan.forward(block.forward(tokens));
          block.plan.backward(block.backward(tokens));
        }
        block.wait();
      };
      call();  // kernels are loaded at their first launch
      const std::int64_t before = allocations;
      call();
      EXPECT_EQ(allocations - before, 0) << contract;
    }
  }
}

}  // namespace
}  // namespace samebits::test
