// What fails beside the computing, or while exchanges run beside it, is an error on every rank and no hang.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "samebits/error.hpp"
#include "support/callback_world.hpp"
#include "support/small_plan.hpp"

namespace samebits::test {
namespace {

// Throws in its countdown-th exchange, subgroups' included, unless that is 0. A deaf one tells nobody of an
// abort.
class FailingTransport final : public Transport {
 public:
  FailingTransport(std::shared_ptr<Transport> inner, std::shared_ptr<std::atomic<int>> countdown,
                   bool deaf = false)
      : inner_(std::move(inner)), countdown_(std::move(countdown)), deaf_(deaf) {}
  std::string name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool reaches(MemorySpace space) const override { return inner_->reaches(space); }
  bool concurrent(MemorySpace space) const override { return inner_->concurrent(space); }
  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    count();
    inner_->all_gather(send, receive, bytes, space, queue);
  }
  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    count();
    inner_->all_to_all(send, send_bytes, receive, receive_bytes, space, queue);
  }
  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<FailingTransport>(inner_->subgroup(ranks), countdown_, deaf_);
  }
  void abort(const std::string& reason) noexcept override {
    if (!deaf_) inner_->abort(reason);
  }

 private:
  void count() {
    if (--*countdown_ == 0) throw Error(ErrorCode::environment, "the cable was pulled");
  }
  std::shared_ptr<Transport> inner_;
  std::shared_ptr<std::atomic<int>> countdown_;
  bool deaf_;
};

// Throws in its countdown-th stage.
class FailingBlock final : public engine::Block {
 public:
  FailingBlock(std::unique_ptr<engine::Block> inner, int countdown)
      : inner_(std::move(inner)), countdown_(countdown) {}
  void gate_up(const engine::GateUp& s, Queue q) override { counted().gate_up(s, q); }
  void down(const engine::Down& s, Queue q) override { counted().down(s, q); }
  void d_act(const engine::DAct& s, Queue q) override { counted().d_act(s, q); }
  void d_hidden(const engine::DHidden& s, Queue q) override { counted().d_hidden(s, q); }
  void d_hidden_lane(const engine::DHiddenLane& s, Queue q) override { counted().d_hidden_lane(s, q); }
  void d_weight(const engine::DWeight& s, Queue q) override { counted().d_weight(s, q); }
  void finish(const engine::Finish& s, Queue q) override { counted().finish(s, q); }
  std::size_t workspace_bytes() const override { return inner_->workspace_bytes(); }

 private:
  engine::Block& counted() {
    if (--countdown_ == 0) throw std::bad_alloc();
    return *inner_;
  }
  std::unique_ptr<engine::Block> inner_;
  int countdown_;
};

class FailingEngine final : public engine::Engine {
 public:
  explicit FailingEngine(int countdown) : countdown_(countdown) {}
  std::string name() const override { return "failing"; }
  Device device() const override { return {}; }
  std::unique_ptr<engine::Block> prepare(const engine::Problem& problem) override {
    return std::make_unique<FailingBlock>(cpu_->prepare(problem), countdown_);
  }
  engine::Memory allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  void copy(const View& to, const ConstView& from, Queue queue) override { cpu_->copy(to, from, queue); }

 private:
  std::shared_ptr<engine::Engine> cpu_ = make_cpu_engine({1, Isa::automatic});
  int countdown_;
};

constexpr Layout kLayout{2, 2, false};

// A forward and a backward of one rank, when all ranks have their plans; exchanges that it made, or -1 where
// it failed with `code`.
int play(std::barrier<>& built, std::shared_ptr<Transport> transport, int failing_exchange, int failing_stage,
         ErrorCode code) {
  const auto countdown = std::make_shared<std::atomic<int>>(0);
  PlanOptions options = SmallPlan::make_options(32, "bf16-tree-v1,T=block:8", {24, 48});
  options.layout = kLayout;
  options.chunks = {3, 4, 1};
  options.engine = std::make_shared<FailingEngine>(failing_stage);
  options.transport = std::make_shared<FailingTransport>(std::move(transport), countdown);
  Plan plan(options);
  built.arrive_and_wait();
  *countdown = failing_exchange;
  SmallPlan data(32);
  const std::int64_t held = plan.shard().intermediate.length();
  ForwardArgs forward = data.forward(16);
  forward.tokens = 32;
  forward.weights = plan.slice(data.weight(data.in.gate, false), data.weight(data.in.up, false),
                               data.weight(data.in.down, true));
  BackwardArgs backward = data.backward(16);
  backward.tokens = 32;
  backward.weights = forward.weights;
  backward.d_gate = backward.d_gate.slice_rows(0, held);
  backward.d_up = backward.d_up.slice_rows(0, held);
  backward.d_down = backward.d_down.slice_cols(0, held);
  try {
    plan.forward(forward);
    plan.backward(backward);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return -1;
  } catch (const std::runtime_error&) {  // of a host program's callbacks
    return -1;
  }
  return failing_exchange - *countdown;
}

using World = void (*)(int, const std::function<void(int, std::shared_ptr<Transport>)>&);

void concurrent_callbacks(int ranks, const std::function<void(int, std::shared_ptr<Transport>)>& body) {
  run_callback_world_on(*make_cpu_engine({1, Isa::automatic}), ranks, true, body);
}

class OverlapFailures : public testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Transports, OverlapFailures, testing::Values(&run_local, &concurrent_callbacks));

TEST_P(OverlapFailures, AnyExchangeOfARank) {
  std::atomic<int> exchanges = 0;
  std::barrier built(kLayout.ranks());
  GetParam()(kLayout.ranks(), [&](int, std::shared_ptr<Transport> transport) {
    exchanges = play(built, std::move(transport), 0, 0, ErrorCode::lost_rank);
  });
  ASSERT_GT(exchanges, 10);
  for (int at = 1; at <= exchanges; ++at) {
    const int failing = at % kLayout.ranks();
    std::atomic<int> failed = 0;
    GetParam()(kLayout.ranks(), [&](int rank, std::shared_ptr<Transport> transport) {
      const bool mine = rank == failing;
      if (play(built, std::move(transport), mine ? at : 0, 0,
               mine ? ErrorCode::environment : ErrorCode::lost_rank) < 0)
        ++failed;
    });
    // The ranks of its group; those that need nothing more of them may come to their end.
    EXPECT_GE(failed, 2) << "exchange " << at;
  }
}

TEST_P(OverlapFailures, AnyStageOfARank) {
  int stages = 0;
  std::barrier built(kLayout.ranks());
  for (int failed = kLayout.ranks(); failed > 0; ++stages) {
    const int failing = stages % kLayout.ranks();
    std::atomic<int> count = 0;
    GetParam()(kLayout.ranks(), [&](int rank, std::shared_ptr<Transport> transport) {
      const bool mine = rank == failing;
      if (play(built, std::move(transport), 0, mine ? stages + 1 : 0,
               mine ? ErrorCode::out_of_memory : ErrorCode::lost_rank) < 0)
        ++count;
    });
    failed = count;
    EXPECT_NE(failed, 1) << "stage " << stages;
  }
  EXPECT_GT(stages, 10);
}

// A plan whose call failed before anything travelled is as good as before.
TEST(Overlap, ACallAfterARefusedOne) {
  run_local(2, [](int, const std::shared_ptr<Transport>& transport) {
    PlanOptions options = SmallPlan::make_options(8, "f32-tree-v1", {24, 48});
    options.layout.tp = 2;
    // Ranks that all refuse need no abort, with which this transport would end.
    options.transport =
        std::make_shared<FailingTransport>(transport, std::make_shared<std::atomic<int>>(0), true);
    Plan plan(options);
    SmallPlan data(8);
    ForwardArgs args = data.forward(8);
    args.weights = plan.slice(data.weight(data.in.gate, false), data.weight(data.in.up, false),
                              data.weight(data.in.down, true));
    ForwardArgs wrong = args;
    wrong.x.cols = 5;
    EXPECT_THROW(plan.forward(wrong), Error);
    plan.forward(args);
  });
}

}  // namespace
}  // namespace samebits::test
