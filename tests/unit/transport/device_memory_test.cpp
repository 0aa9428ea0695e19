// Transports on device memory: ranks of one GPU (local) or one a GPU (NCCL), each on a stream of its own with
// work still in flight.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/engine.hpp"
#include "samebits/engine.hpp"
#include "samebits/transport.hpp"
#include "support/device.hpp"
#include "support/engines.hpp"
#include "transport/nccl_device.hpp"

namespace samebits {
namespace {

using Words = std::vector<std::uint16_t>;

View row(void* data, std::int64_t words, Device device) {
  return {data, DType::bf16, 1, words, words, 1, device};
}

std::uint16_t word_of(std::size_t from, std::size_t to, std::size_t i, int round) {
  return static_cast<std::uint16_t>(from * 4099 + to * 257 + i + static_cast<std::size_t>(round) * 31);
}

class DeviceRank {
 public:
  DeviceRank(engine::Engine& engine, Transport& transport)
      : engine_(engine),
        transport_(transport),
        owned_(engine.make_queue()),
        busy_(engine.allocate(2 * kBusyWords * 2)) {}

  // Bytes that arrive on the stream only after work that lasts longer than it takes to enqueue it.
  engine::Memory slowly(const Words& words) {
    const auto count = static_cast<std::int64_t>(words.size());
    engine::Memory staged = engine_.allocate(words.size() * 2), late = engine_.allocate(words.size() * 2);
    engine_.copy(row(staged.get(), count, engine_.device()), host_view(words.data(), 1, count), queue());
    auto* const busy = static_cast<std::uint16_t*>(busy_.get());
    for (int i = 0; i < 8; ++i) {
      engine_.copy(row(busy, kBusyWords, engine_.device()),
                   row(busy + kBusyWords, kBusyWords, engine_.device()), queue());
    }
    engine_.copy(row(late.get(), count, engine_.device()), row(staged.get(), count, engine_.device()),
                 queue());
    staged_.push_back(std::move(staged));
    return late;
  }

  Words fetch(const engine::Memory& memory, std::size_t count) {
    Words words(count);
    const auto columns = static_cast<std::int64_t>(count);
    engine_.copy(host_view(words.data(), 1, columns), row(memory.get(), columns, engine_.device()), queue());
    return words;
  }

  // The same bytes to and from every rank, in a graph that is launched again on other bytes.
  void check_graph() {
    const auto ranks = static_cast<std::size_t>(transport_.size()),
               me = static_cast<std::size_t>(transport_.rank());
    constexpr std::size_t kWords = 1003;
    const auto all = static_cast<std::int64_t>(ranks * kWords);
    const std::vector<std::size_t> bytes(ranks, 2 * kWords);
    const engine::Memory send = engine_.allocate(ranks * kWords * 2),
                         receive = engine_.allocate(ranks * kWords * 2),
                         gathered = engine_.allocate(ranks * kWords * 2);
    const auto enqueue = [&] {
      transport_.all_to_all(send.get(), bytes, receive.get(), bytes, engine_.device().space, queue());
      transport_.all_gather(send.get(), gathered.get(), bytes, engine_.device().space, queue());
    };
    enqueue();  // whatever a library prepares at its first call
    test::Captured graph(static_cast<cudaStream_t>(queue().handle), enqueue);
    for (int round = 0; round < 4; ++round) {
      Words out, in, first;
      for (std::size_t r = 0; r < ranks; ++r) {
        for (std::size_t i = 0; i < kWords; ++i) {
          out.push_back(word_of(me, r, i, round));
          in.push_back(word_of(r, me, i, round));
          first.push_back(word_of(r, 0, i, round));
        }
      }
      engine_.copy(row(send.get(), all, engine_.device()), host_view(out.data(), 1, all), queue());
      graph.launch();
      ASSERT_EQ(fetch(receive, in.size()), in);
      ASSERT_EQ(fetch(gathered, first.size()), first);
    }
  }

  void check_round(int round) {
    const auto ranks = static_cast<std::size_t>(transport_.size()),
               me = static_cast<std::size_t>(transport_.rank());
    std::vector<std::size_t> sends(ranks), receives(ranks);  // uneven, some of them zero
    Words out, in;
    for (std::size_t r = 0; r < ranks; ++r) {
      sends[r] = 2 * (me + r) * 1000;
      receives[r] = 2 * (r + me) * 1000;
      for (std::size_t i = 0; i < sends[r] / 2; ++i) out.push_back(word_of(me, r, i, round));
      for (std::size_t i = 0; i < receives[r] / 2; ++i) in.push_back(word_of(r, me, i, round));
    }
    const engine::Memory send = slowly(out), receive = slowly(Words(in.size(), 0xEEEE));
    transport_.all_to_all(send.get(), sends, receive.get(), receives, engine_.device().space, queue());
    // What was sent may be overwritten at once.
    const auto sent = static_cast<std::int64_t>(out.size());
    engine_.copy(row(send.get(), sent, engine_.device()), row(busy_.get(), sent, engine_.device()), queue());
    ASSERT_EQ(fetch(receive, in.size()), in);

    // In place: every rank's own piece lies where it belongs.
    std::vector<std::size_t> bytes(ranks);
    Words all, mine_alone;
    for (std::size_t r = 0; r < ranks; ++r) {
      bytes[r] = 2 * r * 1000;
      for (std::size_t i = 0; i < bytes[r] / 2; ++i) {
        all.push_back(word_of(r, 0, i, round));
        mine_alone.push_back(r == me ? all.back() : std::uint16_t{0xEEEE});
      }
    }
    const engine::Memory gathered = slowly(mine_alone);
    const std::size_t before =
        std::accumulate(bytes.begin(), bytes.begin() + transport_.rank(), std::size_t{0});
    transport_.all_gather(static_cast<unsigned char*>(gathered.get()) + before, gathered.get(), bytes,
                          engine_.device().space, queue());
    ASSERT_EQ(fetch(gathered, all.size()), all);
  }

 private:
  static constexpr std::int64_t kBusyWords = 16 << 20;

  Queue queue() const { return {owned_.get()}; }

  engine::Engine& engine_;
  Transport& transport_;
  engine::OwnedQueue owned_;
  engine::Memory busy_;
  std::vector<engine::Memory> staged_;  // freed when all is done
};

using LocalTransportOnADevice = test::OnCuda;

TEST_F(LocalTransportOnADevice, MovesWhatStreamsAreStillMaking) {
  const auto engine = test::cuda_engine();
  for (const int ranks : {1, 2, 5}) {
    run_local(ranks, [&](int, const std::shared_ptr<Transport>& transport) {
      ASSERT_TRUE(transport->reaches(engine->device().space));
      DeviceRank rank(*engine, *transport);
      for (int round = 0; round < 5; ++round) rank.check_round(round);
    });
  }
}

using NcclTransportOnADevice = test::OnCuda;

// A world of one runs every collective that a world of more does; on a machine with more GPUs so do they.
TEST_F(NcclTransportOnADevice, MovesWhatStreamsAreStillMakingAndInGraphs) {
  if (!nccl_status().found) GTEST_SKIP() << "no NCCL: " << nccl_status().problem;
  const auto devices = static_cast<int>(cuda_status().devices.size());
  for (int run = 0; run < 2 * devices; ++run) {
    const int ranks = 1 + run / 2;
    const bool named = run % 2 == 1;  // the rank's device, which need not be the thread's then
    run_local(ranks, [&](int r, const std::shared_ptr<Transport>& bootstrap) {
      const int current = named ? devices - 1 - r : r;
      test::use_device(current);
      const auto engine = make_cuda_engine({r});
      NcclOptions options;
      options.bootstrap = bootstrap;
      if (named) options.device = r;
      const auto transport = nccl_transport(options);
      EXPECT_EQ(transport->size(), ranks);
      ASSERT_TRUE(transport->reaches(engine->device().space));
      DeviceRank rank(*engine, *transport);
      for (int round = 0; round < 5; ++round) rank.check_round(round);
      rank.check_graph();
      EXPECT_EQ(transport::nccl::current_device(engine->device().space), current);
    });
  }
}

}  // namespace
}  // namespace samebits
