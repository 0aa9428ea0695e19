// What a plan on a GPU refuses, and that it has launched nothing by then; the device is usable afterwards.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "samebits/error.hpp"
#include "support/device.hpp"
#include "support/engine_plan.hpp"
#include "support/equality.hpp"

namespace samebits::test {
namespace {

using CudaFailures = OnCuda;

std::string message_of(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

void expect_says(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
}

BlockInputs small_inputs() {
  Random random(71);
  return random_inputs(random, Values::normal, {64, 128}, 40);
}

// A block whose operands are spoilt one at a time.
struct Block : EnginePlan {
  explicit Block(const BlockInputs& given, Placement placement = {})
      : EnginePlan(cuda_engine(), {parse_contract("sm90-v1"), placement}, given), in(given) {}

  void expect_untouched(const std::string& what) const {
    check_cuda(cudaDeviceSynchronize());
    for (const Matrix* result : {&y, &dx, &d_gate, &d_up, &d_down}) {
      for (const std::uint16_t element : result->read<std::uint16_t>()) {
        if (element != 0xFFFF) {
          ADD_FAILURE() << what << " wrote a result before it was refused";
          return;
        }
      }
    }
  }
  void expect_works(const std::string& what) {
    run(in.tokens);
    expect_same_outputs(what + " ", outputs(), cpu_outputs(parse_contract("sm90-v1"), in, false), in, false);
  }
  BlockInputs in;
};

struct Spoilt {
  const char* name;
  std::function<ConstView(ConstView)> change;
  const char* says;
};

// Every operand and result, spoilt in turn; the message names it.
void expect_each_refused(const Spoilt& spoilt) {
  const BlockInputs in = small_inputs();
  Block block(in);
  const auto spoil = [&](auto& view) {
    const ConstView changed = spoilt.change(view);
    view.data = const_cast<void*>(changed.data);
    view.device = changed.device;
  };
  const auto forward = [&](const char* name, const std::function<void(ForwardArgs&)>& change) {
    ForwardArgs args = block.forward(in.tokens);
    change(args);
    const std::string message = message_of(ErrorCode::invalid_argument, [&] { block.plan.forward(args); });
    EXPECT_EQ(message.rfind(std::string(name) + " ", 0), 0u) << spoilt.name << ": " << message;
    expect_says(message, spoilt.says);
  };
  const auto backward = [&](const char* name, const std::function<void(BackwardArgs&)>& change) {
    BackwardArgs args = block.backward(in.tokens);
    change(args);
    const std::string message = message_of(ErrorCode::invalid_argument, [&] { block.plan.backward(args); });
    EXPECT_EQ(message.rfind(std::string(name) + " ", 0), 0u) << spoilt.name << ": " << message;
    expect_says(message, spoilt.says);
  };
  forward("x", [&](ForwardArgs& args) { spoil(args.x); });
  forward("y", [&](ForwardArgs& args) { spoil(args.y); });
  forward("gate", [&](ForwardArgs& args) { spoil(args.weights.gate); });
  forward("up", [&](ForwardArgs& args) { spoil(args.weights.up); });
  forward("down", [&](ForwardArgs& args) { spoil(args.weights.down); });
  block.expect_untouched(spoilt.name);
  block.plan.forward(block.forward(in.tokens));
  block.wait();
  block.poison_results();
  backward("x", [&](BackwardArgs& args) { spoil(args.x); });
  backward("dy", [&](BackwardArgs& args) { spoil(args.dy); });
  backward("dx", [&](BackwardArgs& args) { spoil(args.dx); });
  backward("gate", [&](BackwardArgs& args) { spoil(args.weights.gate); });
  backward("d_gate", [&](BackwardArgs& args) { spoil(args.d_gate); });
  backward("d_up", [&](BackwardArgs& args) { spoil(args.d_up); });
  backward("d_down", [&](BackwardArgs& args) { spoil(args.d_down); });
  block.expect_untouched(spoilt.name);
  block.expect_works(spoilt.name);
}

TEST_F(CudaFailures, HostMemoryCalledDeviceMemory) {
  std::vector<std::uint16_t> host(128 * 128);
  expect_each_refused({"host memory",
                       [&](ConstView view) {
                         view.data = host.data();
                         return view;
                       },
                       "host memory"});
}

TEST_F(CudaFailures, HostViews) {
  std::vector<std::uint16_t> host(128 * 128);
  expect_each_refused({"a host view",
                       [&](ConstView view) {
                         view.data = host.data();
                         view.device = {};
                         return view;
                       },
                       "device"});
}

TEST_F(CudaFailures, ViewsOfAnotherDevice) {
  expect_each_refused({"another device",
                       [](ConstView view) {
                         ++view.device.index;
                         return view;
                       },
                       "another device"});
}

TEST_F(CudaFailures, OddAddresses) {
  expect_each_refused({"an odd address",
                       [](ConstView view) {
                         view.data = static_cast<const unsigned char*>(view.data) + 1;
                         return view;
                       },
                       "no multiple of 2"});
}

TEST_F(CudaFailures, AddressesOfTwoBytesAreLegal) {
  for (const Placement placement : {Placement{0, 1}, Placement{8, 1}, Placement{1, 0}, Placement{5, 3}}) {
    Block block(small_inputs(), placement);
    block.expect_works(fmt::format("rows {} apart from {}", placement.padding, placement.shift));
  }
}

TEST_F(CudaFailures, AContractOfAnotherDevice) {
  PlanOptions options;
  options.contract = parse_contract("gfx942-v1");
  options.shape = {64, 128};
  options.max_tokens = 4;
  options.engine = cuda_engine();
  expect_says(message_of(ErrorCode::refused, [&] { const Plan plan(options); }), "gfx942");
  Block(small_inputs()).expect_works("after a refusal");
}

TEST_F(CudaFailures, TooLittleMemory) {
  PlanOptions options;
  options.contract = parse_contract("sm90-v1");
  options.shape = {64, 65536};
  options.max_tokens = std::int64_t{1} << 21;  // 256 GiB for each of five activations
  options.engine = cuda_engine();
  Block(small_inputs()).expect_works("before");  // kernels are loaded at their first launch
  const std::size_t before = free_device_memory();
  const std::string message = message_of(ErrorCode::out_of_memory, [&] { const Plan plan(options); });
  expect_says(message, "bytes");
  expect_says(message, "device");
  expect_says(message, "free");
  EXPECT_GE(free_device_memory(), before) << "what the plan had taken before it failed was kept";
  Block(small_inputs()).expect_works("after a plan that did not fit");
  EXPECT_EQ(message_of(ErrorCode::out_of_memory,
                       [&] { static_cast<void>(cuda_engine()->allocate(std::size_t{1} << 50)); })
                .find('\n'),
            std::string::npos);
}

}  // namespace
}  // namespace samebits::test
