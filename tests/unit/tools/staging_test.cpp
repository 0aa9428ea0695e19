// A layout's run on an engine whose memory is not the host's: operands go there, poison too, results come
// back. The device is played by host memory of another name.
#include "block/staging.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <new>

#include "small_block.hpp"

namespace samebits::tools {
namespace {

class PlayedDevice final : public engine::Engine {
 public:
  std::string name() const override { return "played"; }
  Device device() const override { return {MemorySpace::hip, 3}; }
  std::unique_ptr<engine::Block> prepare(const engine::Problem& problem) override {
    return cpu_->prepare(problem);
  }
  engine::Memory allocate(std::size_t bytes) override {
    return {::operator new(bytes), [](void* data) { ::operator delete(data); }};
  }
  void copy(const View& to, const ConstView& from, Queue queue) override {
    EXPECT_EQ(to.rows, from.rows);
    EXPECT_EQ(to.cols, from.cols);
    EXPECT_EQ(to.dtype, from.dtype);
    EXPECT_TRUE(to.rows_packed() && from.rows_packed());
    if (to.device.space == MemorySpace::host && forgets_) return;
    queues_seen_ += queue.handle == this;
    const std::size_t size = size_of(from.dtype);
    for (std::int64_t row = 0; row < from.rows; ++row) {
      std::memcpy(static_cast<unsigned char*>(to.data) + static_cast<std::size_t>(row * to.row_stride) * size,
                  static_cast<const unsigned char*>(from.data) +
                      static_cast<std::size_t>(row * from.row_stride) * size,
                  static_cast<std::size_t>(from.cols) * size);
    }
  }
  engine::OwnedQueue make_queue() override {
    return {this, [](void*) {}};
  }

  bool forgets_ = false;  // to bring results back
  int queues_seen_ = 0;

 private:
  std::shared_ptr<engine::Engine> cpu_ = make_cpu_engine({.threads = 1});
};

TEST(Staging, ALayoutRunsOnAnotherMemory) {
  for (const DType gradients : {DType::bf16, DType::f32}) {
    const SmallBlock small({64, 208}, 13, gradients);
    Compute compute = compute_with("f32-tree-v1");
    const BlockTensors exact = small.run(compute);
    const auto device = std::make_shared<PlayedDevice>();
    compute.device_engine = device;
    EXPECT_EQ(compute.engine_text(), "played");
    BlockTensors out(small.block().shape, small.block().tokens, gradients);
    EXPECT_EQ(run_layout(compute, small.block(), {.exact = &exact}, out).differing,
              (PerTensor<std::int64_t>{}));
    EXPECT_EQ(digests_of(out, 1), digests_of(exact, 1));
    EXPECT_GT(device->queues_seen_, 0);

    device->forgets_ = true;
    const LayoutOutcome poisoned = run_layout(compute, small.block(), {.exact = &exact}, out);
    EXPECT_EQ(poisoned.differing, poisoned.compared);
  }
}

TEST(Staging, HostMemoryIsUsedWhereItLies) {
  Staging staging(nullptr);
  std::uint16_t data[4] = {};
  EXPECT_EQ(staging.input(host_view(static_cast<const void*>(data), 2, 2)).data, data);
  const View out = staging.output(host_view(data, 2, 2));
  EXPECT_EQ(out.data, data);
  staging.fetch(out, out);
  EXPECT_EQ(staging.queue().handle, nullptr);
}

TEST(Staging, PoisonReachesTheDevice) {
  const auto device = std::make_shared<PlayedDevice>();
  Staging staging(device);
  HostTensor tensor(3, 5);
  tensor.poison();
  const View there = staging.output(tensor.view());
  EXPECT_NE(there.data, tensor.view().data);
  EXPECT_EQ(there.device, device->device());
  EXPECT_EQ(std::memcmp(there.data, tensor.view().data, tensor.bytes()), 0);
}

}  // namespace
}  // namespace samebits::tools
