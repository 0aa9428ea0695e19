// A process of its own: nothing of the library has run before the thread's floating-point settings are
// changed.
#include <gtest/gtest.h>

#include <cfenv>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "support/block.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

reference::Outputs expected_of(const Contract& contract, const BlockInputs& in) {
  return reference::evaluate(contract, reference::trees_of(contract, in.shape, in.tokens), in.view());
}

// A caller's thread may flush subnormals and round elsewhere; results and its own settings stay as they were.
TEST(Engine, ForeignFloatingPointEnvironment) {
  Random random(13);
  const Contract contract = parse_contract("f32-tree-v1");
  BlockInputs in = random_inputs(random, Values::normal, {33, 47}, 21);
  in.down =
      random_tensor(random, Values::subnormal, 33 * 47);  // y is subnormal, and zero where those are flushed
  const reference::Outputs expected = expected_of(contract, in);
  std::vector<std::uint16_t> y(in.x.size());
  std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
#endif
  PlanOptions options;
  options.contract = contract;
  options.shape = in.shape;
  options.max_tokens = in.tokens;
  options.engine = make_cpu_engine({2, Isa::automatic});
  Plan plan(options);
  ForwardArgs args;
  args.x = host_view(static_cast<const void*>(in.x.data()), in.tokens, in.shape.hidden);
  args.y = host_view(y.data(), in.tokens, in.shape.hidden);
  args.weights =
      plan.slice(host_view(static_cast<const void*>(in.gate.data()), in.shape.intermediate, in.shape.hidden),
                 host_view(static_cast<const void*>(in.up.data()), in.shape.intermediate, in.shape.hidden),
                 host_view(static_cast<const void*>(in.down.data()), in.shape.hidden, in.shape.intermediate));
  plan.forward(args);
#if defined(__x86_64__)
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & 0xE040u, (before | 0x8040) & 0xE040u);
#endif
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  expect_same_bits("y under a foreign environment", y.data(), expected.y.data(), in.tokens, in.shape.hidden);
}

}  // namespace
}  // namespace samebits::test
