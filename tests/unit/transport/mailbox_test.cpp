// Mailboxes of ranks that share one GPU: messages of any size at any address, one after another without a
// pause.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "engine/engine.hpp"
#include "samebits/engine.hpp"
#include "samebits/transport.hpp"
#include "support/device.hpp"
#include "support/engines.hpp"
#include "transport/nccl_mailbox.hpp"

namespace samebits {
namespace {

using transport::nccl::Identity;
using transport::nccl::kSuccess;
using transport::nccl::Mailbox;

using Bytes = std::vector<std::uint8_t>;

View row(void* data, std::size_t bytes, Device device) {
  const auto words = static_cast<std::int64_t>(bytes / 2);
  return {data, DType::bf16, 1, words, words, 1, device};
}

std::unique_ptr<Mailbox> open_over(Transport& host, bool wanted) {
  const auto gather = [&](const void* mine, void* all, std::size_t bytes) {
    const std::vector<std::size_t> sizes(static_cast<std::size_t>(host.size()), bytes);
    host.all_gather(mine, all, sizes, MemorySpace::host, {});
  };
  const std::vector<Identity> ranks(static_cast<std::size_t>(host.size()), transport::nccl::own_identity());
  return Mailbox::open(gather, ranks, host.rank(), 0, MemorySpace::cuda, wanted);
}

void wait_for_all(Transport& host) {
  const std::vector<std::size_t> nothing(static_cast<std::size_t>(host.size()));
  host.all_gather(nullptr, nullptr, nothing, MemorySpace::host, {});
}

// What rank r sends in round n: all ranks can say it.
struct Round {
  std::vector<std::size_t> bytes, offset;  // from rank r, and how far off its address lies
  std::size_t receive_offset = 0;
  bool in_place = false;

  Round(int ranks, unsigned n, std::size_t most) {
    std::mt19937 random(n);
    in_place = random() % 4 == 0;
    for (int r = 0; r < ranks; ++r) {
      const std::size_t limit = std::size_t{1} << (random() % 22);
      bytes.push_back(random() % 5 == 0 ? 0 : random() % std::min(limit, most));
      offset.push_back(random() % 3 == 0 ? random() % 8 : 0);
    }
    if (random() % 2 == 0) std::fill(bytes.begin(), bytes.end(), bytes.front() / 16 * 16);
    receive_offset = random() % 3 == 0 ? random() % 8 : 0;
  }
  std::size_t before(int rank) const {
    std::size_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += bytes[static_cast<std::size_t>(r)];
    return sum;
  }
  std::size_t all() const { return before(static_cast<int>(bytes.size())); }
};

std::uint8_t byte_of(int rank, unsigned n, std::size_t i) {
  return static_cast<std::uint8_t>(1 +
                                   (i * 2654435761U + n * 40503U + static_cast<unsigned>(rank) * 97U) % 255);
}

constexpr std::size_t kRoom = 24 << 20;

class MailboxRank {
 public:
  MailboxRank(engine::Engine& engine, Mailbox& box, int rank, int ranks)
      : engine_(engine),
        box_(box),
        rank_(rank),
        ranks_(ranks),
        owned_(engine.make_queue()),
        send_(engine.allocate(kRoom)),
        receive_(engine.allocate(kRoom)) {}

  // Enqueues; the first difference is kept, and named with its round.
  void check(unsigned n, std::size_t most) {
    const Round round(ranks_, n, most);
    const std::size_t mine = round.bytes[static_cast<std::size_t>(rank_)];
    auto* const receive = static_cast<unsigned char*>(receive_.get()) + round.receive_offset;
    unsigned char* const send = round.in_place ? receive + round.before(rank_)
                                               : static_cast<unsigned char*>(send_.get()) +
                                                     round.offset[static_cast<std::size_t>(rank_)];
    Bytes poison(round.all() + 64, 0), out(mine);
    for (std::size_t i = 0; i < mine; ++i) out[i] = byte_of(rank_, n, i);
    put(receive, poison);
    put(send, out);
    ASSERT_EQ(box_.all_gather(send, receive, round.bytes, queue()), kSuccess);
    // What was sent may be overwritten at once.
    if (!round.in_place) test::check_cuda(cudaMemsetAsync(send, 0, mine, stream()));
    const Bytes in = fetch(receive, round.all() + 64);
    Bytes expected;
    for (int r = 0; r < ranks_; ++r) {
      for (std::size_t i = 0; i < round.bytes[static_cast<std::size_t>(r)]; ++i)
        expected.push_back(byte_of(r, n, i));
    }
    expected.resize(in.size(), 0);  // and nothing beyond
    for (std::size_t i = 0; i < in.size(); ++i) {
      ASSERT_EQ(in[i], expected[i]) << "round " << n << " rank " << rank_ << " byte " << i << " of "
                                    << round.all();
    }
  }

  // What rank `from` sends rank `to` in round n: sizes that differ in both directions, and none at all.
  static std::size_t bytes_between(int from, int to, unsigned n, std::size_t most) {
    std::mt19937 random(n * 64 + static_cast<unsigned>(from * 8 + to));
    if (random() % 6 == 0) return 0;
    const std::size_t bytes = random() % std::min(std::size_t{1} << (random() % 24), most);
    return random() % 2 == 0 ? bytes / 16 * 16 : bytes;
  }

  void check_all_to_all(unsigned n, std::size_t most) {
    std::vector<std::size_t> sends, receives;
    Bytes out, expected;
    for (int r = 0; r < ranks_; ++r) {
      sends.push_back(bytes_between(rank_, r, n, most));
      receives.push_back(bytes_between(r, rank_, n, most));
      for (std::size_t i = 0; i < sends.back(); ++i) out.push_back(byte_of(rank_ * 8 + r, n, i));
      for (std::size_t i = 0; i < receives.back(); ++i) expected.push_back(byte_of(r * 8 + rank_, n, i));
    }
    auto* const send = static_cast<unsigned char*>(send_.get()) + n % 3 * 4;
    auto* const receive = static_cast<unsigned char*>(receive_.get()) + n % 5 % 2;
    expected.resize(expected.size() + 64, 0);
    put(receive, Bytes(expected.size(), 0));
    put(send, out);
    ASSERT_EQ(box_.all_to_all(send, sends, receive, receives, queue()), kSuccess);
    test::check_cuda(cudaMemsetAsync(send, 0, out.size(), stream()));
    const Bytes in = fetch(receive, expected.size());
    for (std::size_t i = 0; i < in.size(); ++i)
      ASSERT_EQ(in[i], expected[i]) << "round " << n << " rank " << rank_ << " byte " << i << " of "
                                    << in.size();
  }

  // A graph of collectives on changing bytes, launched without waiting for any of them.
  void check_graph(int launches, std::size_t size) {
    const std::vector<std::size_t> bytes(static_cast<std::size_t>(ranks_), size);
    const std::size_t all = static_cast<std::size_t>(ranks_) * size;
    auto* const send = static_cast<unsigned char*>(send_.get());
    auto* const receive = static_cast<unsigned char*>(receive_.get());
    // Rank r's piece of what arrives is the next thing to send: after as many rounds as ranks all is rank
    // 0's.
    test::Captured graph(stream(), [&] {
      const auto next = static_cast<std::size_t>((rank_ + 1) % ranks_);
      ASSERT_EQ(box_.all_gather(send, receive, bytes, queue()), kSuccess);
      engine_.copy(row(send, bytes[0], engine_.device()),
                   row(receive + next * bytes[0], bytes[0], engine_.device()), queue());
    });
    Bytes out(bytes[0]);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = byte_of(rank_, 7, i);
    put(send, out);
    for (int i = 0; i < launches; ++i) graph.launch();
    const Bytes in = fetch(receive, all);
    for (int r = 0; r < ranks_; ++r) {
      const int from = (r + launches - 1) % ranks_;
      for (std::size_t i = 0; i < bytes[0]; ++i)
        ASSERT_EQ(in[static_cast<std::size_t>(r) * bytes[0] + i], byte_of(from, 7, i)) << "rank " << rank_;
    }
  }

 private:
  Queue queue() const { return {owned_.get()}; }
  cudaStream_t stream() const { return test::stream_of(queue()); }

  void put(void* to, const Bytes& bytes) {
    test::check_cuda(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream()));
    test::check_cuda(cudaStreamSynchronize(stream()));
  }

  // The driver holds its lock while a copy to the host waits for a stream, and no other rank could begin.
  Bytes fetch(const void* from, std::size_t bytes) {
    Bytes in(bytes);
    test::check_cuda(cudaStreamSynchronize(stream()));
    test::check_cuda(cudaMemcpyAsync(in.data(), from, bytes, cudaMemcpyDeviceToHost, stream()));
    test::check_cuda(cudaStreamSynchronize(stream()));
    return in;
  }

  engine::Engine& engine_;
  Mailbox& box_;
  int rank_, ranks_;
  engine::OwnedQueue owned_;
  engine::Memory send_, receive_;
};

using MailboxOnADevice = test::OnCuda;

TEST_F(MailboxOnADevice, BringsEveryByteToEveryRank) {
  const auto engine = test::cuda_engine();
  for (const int ranks : {2, 3, 8}) {
    run_local(ranks, [&](int r, const std::shared_ptr<Transport>& host) {
      const auto box = open_over(*host, true);
      ASSERT_TRUE(box);
      MailboxRank rank(*engine, *box, r, ranks);
      wait_for_all(*host);
      // All blocks of all ranks are resident on one GPU: of eight ranks there are many.
      const std::size_t most = ranks == 8 ? 4096 : (std::size_t{4} << 20) / static_cast<std::size_t>(ranks);
      for (unsigned n = 0; n < 120; ++n) {
        rank.check(n, most);
        rank.check_all_to_all(n, ranks == 8 ? most : 4 * most);
      }
      rank.check_graph(1001, 16 << 10);
      if (ranks < 8) rank.check_graph(101, 1 << 20);
      rank.check(1, most);
      wait_for_all(*host);
    });
  }
}

TEST_F(MailboxOnADevice, IsNobodysWhereOneDoesNotWantIt) {
  run_local(2,
            [&](int r, const std::shared_ptr<Transport>& host) { EXPECT_FALSE(open_over(*host, r == 0)); });
}

TEST_F(MailboxOnADevice, LetsWhoeverWaitsGo) {
  const auto engine = test::cuda_engine();
  run_local(2, [&](int r, const std::shared_ptr<Transport>& host) {
    const auto box = open_over(*host, true);
    ASSERT_TRUE(box);
    if (r == 1) return wait_for_all(*host);  // and sends nothing
    const engine::OwnedQueue owned = engine->make_queue();
    const engine::Memory memory = engine->allocate(1 << 20);
    const std::vector<std::size_t> bytes{1000, 1000};
    ASSERT_EQ(box->all_gather(memory.get(), memory.get(), bytes, {owned.get()}), kSuccess);
    const cudaStream_t stream = test::stream_of({owned.get()});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    box->abandon();
    test::check_cuda(cudaStreamSynchronize(stream));
    wait_for_all(*host);
  });
}

}  // namespace
}  // namespace samebits
