// Exchanges beside the computing move no bit: every schedule that overlaps against the one that takes turns.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "support/block.hpp"
#include "support/delays.hpp"
#include "support/equality.hpp"
#include "support/small_plan.hpp"

namespace samebits::test {
namespace {

const std::vector<std::string> kContracts = {
    "bf16-tree-v1,H=max:7,I=max:5,T=max:3", "f32-tree-v1,T=block:8,I=block:8",
    "sm90-v1,T=block:16,I=halve:2",         "hf-sm90-v1",
    "f32-tree-v1,lanes=bf16,I=max:3",
};

template <class T>
T pick(Random& random, const std::vector<T>& from) {
  return from[static_cast<std::size_t>(uniform(random, 0, static_cast<std::int64_t>(from.size()) - 1))];
}

ChunkRule random_chunks(Random& random) {
  return {uniform(random, 1, 6), uniform(random, 1, 9), uniform(random, 1, 3)};
}

int rounds_or(int usual) {
  const char* const text = std::getenv("SAMEBITS_ROUNDS");
  return text != nullptr ? std::atoi(text) : usual;
}

BlockRun random_run(Random& random) {
  BlockRun run;
  run.contract = parse_contract(pick(random, kContracts));
  run.layout = {static_cast<int>(uniform(random, 1, 4)), static_cast<int>(uniform(random, 1, 3)),
                uniform(random, 0, 2) == 0};
  run.threads = static_cast<int>(uniform(random, 1, 2));
  run.split = pick<TokenSplit>(random, {TokenSplit::contiguous, TokenSplit::zigzag, TokenSplit::random});
  run.split_seed = random();
  run.down = uniform(random, 0, 3) == 0 ? DownCut::rows : DownCut::automatic;
  run.gradients =
      pick<GradientReduction>(random, {GradientReduction::automatic, GradientReduction::gather_tokens});
  run.covers = pick<CoverExchange>(
      random, {CoverExchange::automatic, CoverExchange::one_shot, CoverExchange::slice_owner});
  run.callbacks = uniform(random, 0, 2) == 0;
  run.placement.padding = uniform(random, 0, 2) == 0 ? 3 : 0;
  run.f32_gradients = uniform(random, 0, 2) == 0;
  run.given_saved = uniform(random, 0, 1) == 0;
  run.recompute = uniform(random, 0, 2) == 0;
  return run;
}

// `blocks` random blocks and layouts, each in turn once, then `overlapped` times with random chunks and
// delays.
void compare_schedules(int seed, int blocks, int overlapped, bool played) {
  for (int i = 0; i < blocks; ++i) {
    Random random(static_cast<std::uint64_t>(seed + i));
    BlockRun run = random_run(random);
    const BlockInputs in =
        random_inputs(random, Values::normal, {uniform(random, 1, 24), uniform(random, 8, 48)},
                      uniform(random, 0, 9) == 0 ? uniform(random, 0, 2) : uniform(random, 3, 30));
    // So few that some chunks go in one shot, and others do not.
    if (uniform(random, 0, 1) == 0)
      run.one_shot_bytes = static_cast<std::size_t>(uniform(random, 1, 9) * in.shape.hidden * 4);
    run.overlap = Overlap::off;
    const BlockOutputs in_turn = run_block(run, in);
    run.overlap = Overlap::automatic;
    run.delays = 200;
    run.played = played;
    run.callbacks = run.callbacks && !played;
    for (int repeat = 0; repeat < overlapped; ++repeat) {
      run.chunks = random_chunks(random);
      run.delay_seed = random();
      expect_same_outputs(fmt::format("block {}, {} tokens, {}: ", i, in.tokens, describe(run)),
                          run_block(run, in), in_turn, in, run.f32_gradients);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(Overlap, MovesNoBit) { compare_schedules(7000, std::max(1, rounds_or(1000) / 5), 5, false); }

// Chunks of four, four and three rows, of which the last alone goes in one shot, into rows that lie apart:
// those of the others are still being gathered when the last is finished.
TEST(Overlap, ChunksThatTravelInTwoWays) {
  Random random(5);
  const BlockInputs in = random_inputs(random, Values::normal, {24, 48}, 11);
  BlockRun run;
  run.contract = parse_contract("f32-tree-v1");  // whose covers have one node here
  run.layout.tp = 2;
  run.placement.padding = 3;
  run.chunks = {4, 3, 1};
  run.one_shot_bytes = 3 * 24 * sizeof(float);
  run.overlap = Overlap::off;
  const BlockOutputs in_turn = run_block(run, in);
  run.overlap = Overlap::automatic;
  run.delays = 200;
  for (int repeat = 0; repeat < 20 && !HasFailure(); ++repeat) {
    run.delay_seed = random();
    run.played = repeat % 2 == 1;
    expect_same_outputs(describe(run), run_block(run, in), in_turn, in, false);
  }
}

TEST(Overlap, MovesNoBitOnQueues) { compare_schedules(9000, std::max(1, rounds_or(300) / 3), 3, true); }

// A rank's part of a call, packed.
struct Results {
  std::vector<std::uint16_t> y, dx, d_gate, d_up, d_down;
};

// One plan, called again and again with other counts of tokens, for all results or some.
TEST(Overlap, OnePlanManyCalls) {
  for (int round = 0; round < rounds_or(40); ++round) {
    Random random(static_cast<std::uint64_t>(11000 + round));
    PlanOptions options =
        SmallPlan::make_options(24, pick(random, kContracts).c_str(), {uniform(random, 4, 24), 40});
    options.layout = {static_cast<int>(uniform(random, 1, 3)), static_cast<int>(uniform(random, 1, 2)),
                      uniform(random, 0, 2) == 0};
    options.chunks = random_chunks(random);
    struct Step {
      std::int64_t tokens;
      bool dx, gradients;
    };
    std::vector<Step> steps;
    for (int i = 0; i < 4; ++i)
      steps.push_back({uniform(random, 0, 24), uniform(random, 0, 3) > 0, uniform(random, 0, 3) > 0});
    const BlockInputs in = random_inputs(random, Values::normal, options.shape, 24);
    const auto ranks = static_cast<std::size_t>(options.layout.ranks());
    const auto play = [&](Overlap overlap) {
      std::vector<std::vector<Results>> all(ranks);
      run_local(options.layout.ranks(), [&](int rank, std::shared_ptr<Transport> transport) {
        PlanOptions mine = options;
        mine.overlap = overlap;
        mine.engine = make_cpu_engine({1, Isa::automatic});
        mine.transport =
            delayed_transport(std::move(transport), static_cast<std::uint64_t>(round * 64 + rank), 200);
        Plan plan(mine);
        const auto [hidden, intermediate] = mine.shape;
        const Weights weights =
            plan.slice(host_view(static_cast<const void*>(in.gate.data()), intermediate, hidden),
                       host_view(static_cast<const void*>(in.up.data()), intermediate, hidden),
                       host_view(static_cast<const void*>(in.down.data()), hidden, intermediate));
        for (const Step& step : steps) {
          const std::int64_t held = even_slice(step.tokens, mine.layout.cp, plan.shard().cp_rank).length();
          const bool slices = mine.layout.sequence_parallel && mine.layout.tp > 1;
          const std::int64_t rows =
              slices ? even_slice(held, mine.layout.tp, plan.shard().tp_rank).length() : held;
          const std::int64_t part = plan.shard().intermediate.length();
          Results out;
          const auto matrix = [](std::vector<std::uint16_t>& data, std::int64_t r, std::int64_t c) {
            data.assign(static_cast<std::size_t>(r * c) + 1, 0x7FFF);
            return host_view(data.data(), r, c);
          };
          ForwardArgs forward;
          // Any rows will do, the same under both schedules.
          forward.x = host_view(static_cast<const void*>(in.x.data()), rows, hidden);
          forward.y = matrix(out.y, rows, hidden);
          forward.weights = weights;
          forward.tokens = step.tokens;
          plan.forward(forward);
          BackwardArgs backward;
          backward.x = forward.x;
          backward.dy = host_view(static_cast<const void*>(in.dy.data()), rows, hidden);
          backward.weights = weights;
          backward.tokens = step.tokens;
          if (step.dx) backward.dx = matrix(out.dx, rows, hidden);
          if (step.gradients) {
            backward.d_gate = matrix(out.d_gate, part, hidden);
            backward.d_up = matrix(out.d_up, part, hidden);
            backward.d_down = matrix(out.d_down, hidden, part);
          }
          plan.backward(backward);
          all[static_cast<std::size_t>(rank)].push_back(std::move(out));
        }
      });
      return all;
    };
    const auto in_turn = play(Overlap::off), beside = play(Overlap::automatic);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t step = 0; step < steps.size(); ++step) {
        const Results &a = beside[rank][step], &b = in_turn[rank][step];
        const std::string what =
            fmt::format("round {}, {}, rank {}, call {}", round, name_of(options.layout), rank, step);
        EXPECT_EQ(a.y, b.y) << what;
        EXPECT_EQ(a.dx, b.dx) << what;
        EXPECT_EQ(a.d_gate, b.d_gate) << what;
        EXPECT_EQ(a.d_up, b.d_up) << what;
        EXPECT_EQ(a.d_down, b.d_down) << what;
      }
    }
    if (HasFailure()) return;
  }
}

// Who calls the exchanges of a plan.
class WitnessTransport final : public Transport {
 public:
  struct Log {
    std::mutex mutex;
    std::set<std::thread::id> callers;
    int exchanges = 0;
  };
  WitnessTransport(std::shared_ptr<Transport> inner, std::shared_ptr<Log> log, bool concurrent)
      : inner_(std::move(inner)), log_(std::move(log)), concurrent_(concurrent) {}
  std::string name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool reaches(MemorySpace space) const override { return inner_->reaches(space); }
  bool concurrent(MemorySpace) const override { return concurrent_; }
  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    note();
    inner_->all_gather(send, receive, bytes, space, queue);
  }
  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    note();
    inner_->all_to_all(send, send_bytes, receive, receive_bytes, space, queue);
  }
  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<WitnessTransport>(inner_->subgroup(ranks), log_, concurrent_);
  }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 private:
  void note() {
    const std::lock_guard lock(log_->mutex);
    log_->callers.insert(std::this_thread::get_id());
    ++log_->exchanges;
  }
  std::shared_ptr<Transport> inner_;
  std::shared_ptr<Log> log_;
  bool concurrent_;
};

struct Seen {
  bool by_the_caller = false, by_another = false;
  int exchanges = 0;
  std::size_t workspace = 0;
};

// Who made the exchanges of a forward over tp2, on a rank whose transport and the other's are as said.
Seen forward_seen(Overlap overlap, bool concurrent, bool other_concurrent, ChunkRule chunks) {
  Seen seen;
  run_local(2, [&](int rank, const std::shared_ptr<Transport>& transport) {
    const auto log = std::make_shared<WitnessTransport::Log>();
    PlanOptions options = SmallPlan::make_options(16, "f32-tree-v1", {24, 48});
    options.layout.tp = 2;
    options.backward = false;
    options.overlap = overlap;
    options.chunks = chunks;
    options.transport =
        std::make_shared<WitnessTransport>(transport, log, rank == 0 ? concurrent : other_concurrent);
    Plan plan(options);
    log->callers.clear();
    log->exchanges = 0;
    SmallPlan data(16);
    ForwardArgs args = data.forward(16);
    args.weights = plan.slice(data.weight(data.in.gate, false), data.weight(data.in.up, false),
                              data.weight(data.in.down, true));
    plan.forward(args);
    EXPECT_GT(plan.exposed_seconds(), 0);
    if (rank != 0) return;
    seen.by_the_caller = log->callers.count(std::this_thread::get_id()) > 0;
    seen.by_another = log->callers.size() > (seen.by_the_caller ? 1u : 0u);
    seen.exchanges = log->exchanges;
    seen.workspace = plan.workspace_bytes();
  });
  return seen;
}

TEST(Overlap, IsWhereEveryRanksTransportAllowsIt) {
  const ChunkRule four{4, 4, 1}, one{1, 1, 1};
  const Seen beside = forward_seen(Overlap::automatic, true, true, four);
  EXPECT_TRUE(beside.by_another && !beside.by_the_caller);
  EXPECT_EQ(beside.exchanges, 4);
  const Seen whole = forward_seen(Overlap::automatic, true, true, one);
  EXPECT_TRUE(whole.by_another && !whole.by_the_caller);
  EXPECT_EQ(whole.exchanges, 1);
  for (const auto& [overlap, mine, other] :
       {std::tuple(Overlap::off, true, true), std::tuple(Overlap::automatic, false, true),
        std::tuple(Overlap::automatic, true, false)}) {
    const Seen in_turn = forward_seen(overlap, mine, other, four);
    EXPECT_TRUE(in_turn.by_the_caller && !in_turn.by_another);
    EXPECT_EQ(in_turn.exchanges, 1);
    // Two buffers for a quarter of the rows each take no more than one for all.
    EXPECT_LE(beside.workspace, in_turn.workspace);
    EXPECT_EQ(whole.workspace, in_turn.workspace);
  }
}

}  // namespace
}  // namespace samebits::test
