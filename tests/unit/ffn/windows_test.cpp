// Tensor ranks that write into each other's memory: over any sequence of a plan's calls the bits of one rank,
// however far the ranks run apart; no window, no difference; and a rank that is lost takes no memory with it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "samebits/error.hpp"
#include "samebits/plan.hpp"
#include "support/block.hpp"
#include "support/equality.hpp"
#include "support/failing.hpp"
#include "support/played_device.hpp"
#include "support/rank_rows.hpp"
#include "transport/forwarding.hpp"

namespace samebits::test {
namespace {

constexpr int kLate = 200, kVeryLate = 1000;  // microseconds

// The CPU engine, late: each stage begins after a random while. A rank that reads its window late is one into
// which others may write too early, and one that writes late is one that others may not wait for.
class LateBlock final : public engine::Block {
 public:
  LateBlock(std::unique_ptr<engine::Block> inner, std::uint64_t seed, int most_microseconds)
      : inner_(std::move(inner)), random_(seed), most_(most_microseconds) {}
  void gate_up(const engine::GateUp& s, Queue q) override { late().gate_up(s, q); }
  void down(const engine::Down& s, Queue q) override { late().down(s, q); }
  void d_act(const engine::DAct& s, Queue q) override { late().d_act(s, q); }
  void d_hidden(const engine::DHidden& s, Queue q) override { late().d_hidden(s, q); }
  void d_hidden_lane(const engine::DHiddenLane& s, Queue q) override { late().d_hidden_lane(s, q); }
  void d_weight(const engine::DWeight& s, Queue q) override { late().d_weight(s, q); }
  void finish(const engine::Finish& s, Queue q) override { late().finish(s, q); }
  std::size_t workspace_bytes() const override { return inner_->workspace_bytes(); }

 private:
  // One time in three.
  engine::Block& late() {
    if (uniform(random_, 0, 2) == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(uniform(random_, 0, most_)));
    return *inner_;
  }
  std::unique_ptr<engine::Block> inner_;
  Random random_;
  int most_;
};

class LateEngine final : public engine::Engine {
 public:
  LateEngine(std::uint64_t seed, int most_microseconds) : seed_(seed), most_(most_microseconds) {}
  std::string name() const override { return "late"; }
  Device device() const override { return {}; }
  std::unique_ptr<engine::Block> prepare(const engine::Problem& problem) override {
    return std::make_unique<LateBlock>(cpu_->prepare(problem), seed_, most_);
  }
  engine::Memory allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  void copy(const View& to, const ConstView& from, Queue queue) override { cpu_->copy(to, from, queue); }

 private:
  std::shared_ptr<engine::Engine> cpu_ = make_cpu_engine({1, Isa::automatic});
  std::uint64_t seed_;
  int most_;
};

// A forward and, behind it, a backward where something of it is wanted.
struct Step {
  std::int64_t first = 0, tokens = 0;  // of the inputs
  bool inference = false;              // by another plan, which has no backward
  bool wants_y = true, wants_dx = false, wants_gradients = false;
};

struct Sequence {
  PlanOptions options;  // but for engine and transport
  BlockInputs in;
  std::vector<Step> steps;
};

// What a step leaves on one rank, and the operands, which stay until its queue has come there.
struct Results {
  std::vector<std::uint16_t> y, dx, d_gate, d_up, d_down;
  std::vector<std::uint16_t> x{}, dy{};
};
struct Played {
  RankShard shard;
  std::vector<Results> results;  // of each step
};

std::vector<std::uint16_t> some_rows(const std::vector<std::uint16_t>& whole,
                                     const std::vector<std::int64_t>& rows, std::int64_t first,
                                     std::int64_t cols) {
  std::vector<std::uint16_t> part;
  for (const std::int64_t row : rows)
    part.insert(part.end(), whole.begin() + (first + row) * cols, whole.begin() + (first + row + 1) * cols);
  part.resize(part.size() + 1);  // so that there is an address where there are no rows
  return part;
}

// Host memory, by the name that the engine has for it.
template <class V>
V named(V view, Device device) {
  view.device = device;
  return view;
}

Results play_step(const Sequence& sequence, const Step& step, const Layout& layout, Plan& plan, Device device,
                  Queue queue) {
  const std::int64_t H = sequence.in.shape.hidden, I = sequence.in.shape.intermediate;
  const TokenShards shards = TokenShards::contiguous(step.tokens, layout.cp);
  const std::vector<std::int64_t> rows = rows_of(layout, plan.shard(), shards);
  const auto count = static_cast<std::int64_t>(rows.size()), held = plan.shard().intermediate.length();
  Results results;
  results.x = some_rows(sequence.in.x, rows, step.first, H);
  results.dy = some_rows(sequence.in.dy, rows, step.first, H);
  results.y.resize(results.x.size());
  results.dx.resize(results.x.size());
  const auto result = [&](std::vector<std::uint16_t>& data, std::int64_t r, std::int64_t c) {
    return named(host_view(data.data(), r, c), device);
  };
  const auto operand = [&](const std::vector<std::uint16_t>& data, std::int64_t r, std::int64_t c) {
    return named(host_view(static_cast<const void*>(data.data()), r, c), device);
  };
  ForwardArgs forward;
  forward.x = operand(results.x, count, H);
  forward.shards = &shards;
  forward.queue = queue;
  if (step.wants_y) forward.y = result(results.y, count, H);
  forward.weights = plan.slice(operand(sequence.in.gate, I, H), operand(sequence.in.up, I, H),
                               operand(sequence.in.down, H, I));
  plan.forward(forward);
  if (!step.wants_dx && !step.wants_gradients) return results;
  BackwardArgs backward;
  backward.x = forward.x;
  backward.dy = operand(results.dy, count, H);
  backward.weights = forward.weights;
  backward.shards = &shards;
  backward.queue = queue;
  if (step.wants_dx) backward.dx = result(results.dx, count, H);
  if (step.wants_gradients) {
    for (auto* const gradient : {&results.d_gate, &results.d_up, &results.d_down})
      gradient->resize(static_cast<std::size_t>(held * H));
    backward.d_gate = result(results.d_gate, held, H);
    backward.d_up = result(results.d_up, held, H);
    backward.d_down = result(results.d_down, H, held);
  }
  plan.backward(backward);
  return results;
}

// The sequence on one rank; `built` waits until all ranks have their plans.
Played play(
    const Sequence& sequence, const Layout& layout, const std::shared_ptr<engine::Engine>& engine,
    std::shared_ptr<Transport> transport, const std::function<void()>& built = [] {}) {
  const engine::OwnedQueue own_queue = engine->make_queue();
  const Queue queue{own_queue.get()};
  PlanOptions options = sequence.options;
  options.layout = layout;
  options.engine = engine;
  options.transport = std::move(transport);
  Plan training(options);
  options.backward = false;
  Plan inference(options);
  EXPECT_EQ(training.down(), DownCut::columns);
  built();
  Played played{training.shard(), {}};
  for (const Step& step : sequence.steps) {
    Plan& plan = step.inference ? inference : training;
    played.results.push_back(play_step(sequence, step, layout, plan, engine->device(), queue));
  }
  if (own_queue) engine->synchronize(queue);
  return played;
}

Played play_alone(const Sequence& sequence) {
  return play(sequence, {}, make_cpu_engine({1, Isa::automatic}), self_transport());
}

// Of the results of one rank alone those that a rank of a layout holds.
Results part_of(const Results& whole, const Sequence& sequence, const Step& step, const Layout& layout,
                const RankShard& shard) {
  const std::int64_t H = sequence.in.shape.hidden, I = sequence.in.shape.intermediate;
  const std::vector<std::int64_t> rows =
      rows_of(layout, shard, TokenShards::contiguous(step.tokens, layout.cp));
  Results part{some_rows(whole.y, rows, 0, H), some_rows(whole.dx, rows, 0, H), {}, {}, {}, {}, {}};
  if (whole.d_gate.empty()) return part;
  const Interval mine = shard.intermediate;
  part.d_gate.assign(whole.d_gate.begin() + mine.begin * H, whole.d_gate.begin() + mine.end * H);
  part.d_up.assign(whole.d_up.begin() + mine.begin * H, whole.d_up.begin() + mine.end * H);
  for (std::int64_t row = 0; row < H; ++row)
    part.d_down.insert(part.d_down.end(), whole.d_down.begin() + row * I + mine.begin,
                       whole.d_down.begin() + row * I + mine.end);
  return part;
}

void expect_same_results(const std::string& what, const Results& got, const Results& expected) {
  const auto same = [&](const char* name, const std::vector<std::uint16_t>& a,
                        const std::vector<std::uint16_t>& b) {
    expect_same_bits(what + name, a, b, 1, static_cast<std::int64_t>(b.size()));
  };
  same("y", got.y, expected.y);
  same("dx", got.dx, expected.dx);
  same("d_gate", got.d_gate, expected.d_gate);
  same("d_up", got.d_up, expected.d_up);
  same("d_down", got.d_down, expected.d_down);
}

using Wrap = std::function<std::shared_ptr<Transport>(std::shared_ptr<Transport>)>;
using Make = std::function<std::shared_ptr<engine::Engine>(std::uint64_t seed)>;

std::shared_ptr<engine::Engine> late(std::uint64_t seed) { return std::make_shared<LateEngine>(seed, kLate); }

// Every rank of the layout against one rank alone, step by step.
void expect_the_bits_of_one(const Sequence& sequence, const Played& alone, const Layout& layout,
                            std::uint64_t seed, const std::string& what, const Wrap& wrap = {},
                            const Make& make = late) {
  std::vector<Played> all(static_cast<std::size_t>(layout.ranks()));
  run_local(layout.ranks(), [&](int rank, std::shared_ptr<Transport> transport) {
    if (wrap) transport = wrap(std::move(transport));
    all[static_cast<std::size_t>(rank)] =
        play(sequence, layout, make(seed * 100 + static_cast<std::uint64_t>(rank)), transport);
  });
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (std::size_t at = 0; at < sequence.steps.size(); ++at) {
      const Step& step = sequence.steps[at];
      expect_same_results(fmt::format("{}, rank {}, step {} of {} tokens: ", what, rank, at, step.tokens),
                          all[rank].results[at],
                          part_of(alone.results[at], sequence, step, layout, all[rank].shard));
    }
    if (testing::Test::HasFailure()) return;  // one rank's say enough
  }
}

constexpr std::int64_t kMost = 21;  // tokens of a call

// Calls of no tokens, of fewer than there are ranks, of odd numbers and of many, in any order. No two have
// the same tokens, so that what an earlier one left is never right.
std::vector<Step> random_steps(Random& random, int count) {
  std::vector<Step> steps;
  for (int i = 0; i < count; ++i) {
    Step step;
    const std::int64_t counts[] = {uniform(random, 0, 3), 2 * uniform(random, 0, (kMost - 1) / 2) + 1,
                                   uniform(random, kMost / 2, kMost), uniform(random, kMost / 2, kMost)};
    step.tokens = counts[uniform(random, 0, 3)];
    step.first = i * kMost;
    step.inference = uniform(random, 0, 3) == 0;
    step.wants_dx = !step.inference && uniform(random, 0, 3) != 0;
    step.wants_gradients = !step.inference && uniform(random, 0, 2) == 0;
    step.wants_y = step.inference || uniform(random, 0, 4) != 0;
    steps.push_back(step);
  }
  return steps;
}

Sequence sequence_of(Random& random, const char* contract, Shape shape, int steps) {
  Sequence sequence;
  sequence.options.contract = parse_contract(contract);
  sequence.options.shape = shape;
  sequence.options.max_tokens = sequence.options.max_rank_tokens = kMost;
  sequence.options.down = DownCut::columns;
  sequence.in = random_inputs(random, Values::cancelling, shape, kMost * steps);
  sequence.steps = random_steps(random, steps);
  return sequence;
}

// Under ThreadSanitizer this is also where a rank that reads while another writes shows, lucky or not.
TEST(Windows, AnySequenceOfCallsHasTheBitsOfOneRank) {
  Random random(2201);
  const char* const contracts[] = {"bf16-tree-v1", "f32-tree-v1", "sm90-v1", "sm90-v1,I=halve:4"};
  for (const char* const contract : contracts) {
    for (const char* const name :
         {"tp2", "tp2+sp", "tp3", "tp3+sp", "tp4", "tp4+sp", "tp2+cp2", "tp2+cp2+sp"}) {
      // Not all cuts fall between leaves of one length: some ranks have more nodes than others.
      Sequence sequence = sequence_of(random, contract, {uniform(random, 9, 24), 16 * 15 + 8}, 10);
      const Played alone = play_alone(sequence);
      for (const CoverExchange covers :
           {CoverExchange::automatic, CoverExchange::one_shot, CoverExchange::slice_owner}) {
        sequence.options.cover_exchange = covers;
        // `automatic`: of the calls above some are in one shot and some are not, whatever the contract.
        sequence.options.one_shot_bytes =
            static_cast<std::size_t>(uniform(random, 1, 2 * kMost) * sequence.options.shape.hidden * 4);
        sequence.options.overlap = uniform(random, 0, 1) == 0 ? Overlap::automatic : Overlap::off;
        const std::uint64_t seed = random();
        expect_the_bits_of_one(sequence, alone, parse_layout(name), seed,
                               fmt::format("{} on {}, covers {}, one shot to {} bytes, overlap {}", contract,
                                           name, static_cast<int>(covers), sequence.options.one_shot_bytes,
                                           static_cast<int>(sequence.options.overlap)));
        if (HasFailure()) return;
      }
    }
  }
}

// Exchanges of a device, windows of its memory.
class DeviceTransport final : public transport::ForwardingTransport {
 public:
  explicit DeviceTransport(std::shared_ptr<Transport> host)
      : ForwardingTransport(enqueuing_transport(host)), host_(std::move(host)) {}
  std::shared_ptr<Window> open_window(const std::shared_ptr<void>& memory, MemorySpace) override {
    return host_->open_window(memory, MemorySpace::host);
  }
  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<DeviceTransport>(host_->subgroup(ranks));
  }

 private:
  std::shared_ptr<Transport> host_;
};

// No host waits for a queue before the last call is made: only what queues wait for keeps ranks apart.
TEST(Windows, OnQueuesThatNobodyWaitsFor) {
  Random random(2205);
  for (const char* const name : {"tp2", "tp2+sp", "tp3", "tp4+sp", "tp2+cp2"}) {
    Sequence sequence = sequence_of(random, "f32-tree-v1", {uniform(random, 9, 24), 16 * 15 + 8}, 12);
    const Played alone = play_alone(sequence);
    for (const Overlap overlap : {Overlap::automatic, Overlap::off}) {
      sequence.options.overlap = overlap;
      sequence.options.one_shot_bytes = 5000;
      expect_the_bits_of_one(
          sequence, alone, parse_layout(name), random(),
          fmt::format("{} on queues, overlap {}", name, static_cast<int>(overlap)),
          [](std::shared_ptr<Transport> transport) {
            return std::make_shared<DeviceTransport>(std::move(transport));
          },
          [](std::uint64_t seed) { return played_device(1, seed, kLate); });
      if (HasFailure()) return;
    }
  }
}

struct Watched {
  std::mutex mutex;  // exchanges are made by a thread of the plan's
  int windows = 0, all_to_alls = 0;
  std::vector<std::size_t> gathered;  // bytes that this rank gave, of each all_gather
};

// Lets windows through, or none, and writes down what is exchanged.
class WatchedTransport final : public transport::ForwardingTransport {
 public:
  WatchedTransport(std::shared_ptr<Transport> inner, std::shared_ptr<Watched> watched, bool windows)
      : ForwardingTransport(std::move(inner)), watched_(std::move(watched)), windows_(windows) {}
  void all_gather(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
                  Queue queue) override {
    {
      const std::lock_guard lock(watched_->mutex);
      watched_->gathered.push_back(bytes[static_cast<std::size_t>(rank())]);
    }
    inner().all_gather(send, receive, bytes, space, queue);
  }
  void all_to_all(const void* send, std::span<const std::size_t> send_bytes, void* receive,
                  std::span<const std::size_t> receive_bytes, MemorySpace space, Queue queue) override {
    {
      const std::lock_guard lock(watched_->mutex);
      ++watched_->all_to_alls;
    }
    inner().all_to_all(send, send_bytes, receive, receive_bytes, space, queue);
  }
  std::shared_ptr<Window> open_window(const std::shared_ptr<void>& memory, MemorySpace space) override {
    if (!windows_) return nullptr;
    const std::lock_guard lock(watched_->mutex);
    ++watched_->windows;
    return inner().open_window(memory, space);
  }
  std::shared_ptr<Transport> subgroup(std::span<const int> ranks) override {
    return std::make_shared<WatchedTransport>(inner().subgroup(ranks), watched_, windows_);
  }

 private:
  std::shared_ptr<Watched> watched_;
  bool windows_;
};

// A transport that forwards, and knows of no windows, is one through which all bytes pass.
TEST(Windows, TakeThePlaceOfExchangesWhereThereAreAny) {
  Random random(2202);
  for (const char* const name : {"tp2", "tp3", "tp4+sp", "tp2+cp2"}) {
    Sequence sequence = sequence_of(random, "sm90-v1", {24, 208}, 4);
    for (Step& step : sequence.steps)
      step.wants_gradients = false;  // other all_to_alls, between context ranks
    sequence.steps[0] = {0, kMost, false, true, true, false};
    sequence.options.cover_exchange = CoverExchange::slice_owner;
    const Played alone = play_alone(sequence);
    for (const bool windows : {true, false}) {
      std::vector<std::shared_ptr<Watched>> watched;
      std::mutex mutex;
      expect_the_bits_of_one(sequence, alone, parse_layout(name), 5, fmt::format("{}, {}", name, windows),
                             [&](std::shared_ptr<Transport> transport) {
                               const auto mine = std::make_shared<Watched>();
                               const std::lock_guard lock(mutex);
                               watched.push_back(mine);
                               return std::make_shared<WatchedTransport>(std::move(transport), mine, windows);
                             });
      for (const auto& of_rank : watched) {
        EXPECT_EQ(of_rank->windows, windows ? 3 : 0) << name;  // a lane: two with backward, one without
        EXPECT_EQ(of_rank->all_to_alls > 0, !windows) << name;
      }
    }
  }
}

// Word that a result's covers are complete is 16 bytes, once for both lanes of dX; the rest is finished
// slices.
TEST(Windows, ExchangeAWordAndTheSlices) {
  Random random(2203);
  Sequence sequence = sequence_of(random, "f32-tree-v1", {16, 128}, 1);
  sequence.options.cover_exchange = CoverExchange::slice_owner;
  for (const bool backward : {false, true}) {
    sequence.steps = {{0, 8, false, !backward, backward, false}};
    run_local(2, [&](int, std::shared_ptr<Transport> transport) {
      const auto watched = std::make_shared<Watched>();
      play(sequence, parse_layout("tp2"), make_cpu_engine({1, Isa::automatic}),
           std::make_shared<WatchedTransport>(std::move(transport), watched, true),
           [&] { watched->gathered.clear(); });
      EXPECT_EQ(watched->gathered, (std::vector<std::size_t>{16, 4 * 16 * 2})) << backward;
    });
  }
}

// A rank is lost in any stage, and its plan with it, while the others still write where its memory was.
TEST(Windows, ARankThatIsLostLeavesItsMemory) {
  Random random(2204);
  for (const char* const name : {"tp3", "tp4+sp", "tp2+cp2"}) {
    const Layout layout = parse_layout(name);
    Sequence sequence = sequence_of(random, "bf16-tree-v1", {24, 248}, 2);
    sequence.steps = {{0, kMost, false, true, true, true}, {kMost, kMost - 2, false, true, true, false}};
    sequence.options.cover_exchange = CoverExchange::slice_owner;
    std::barrier together(layout.ranks());
    int stages = 0;
    for (int failed = layout.ranks(); failed > 0; ++stages) {
      std::atomic<int> count = 0;
      const auto fails = [&](int rank) { return rank == stages % layout.ranks(); };
      const auto body = [&](int rank, std::shared_ptr<Transport> transport) {
        std::shared_ptr<engine::Engine> engine;
        if (fails(rank)) {
          engine = std::make_shared<FailingEngine>(stages + 1);
        } else {
          engine = std::make_shared<LateEngine>(static_cast<std::uint64_t>(stages * 100 + rank), kVeryLate);
        }
        try {
          play(sequence, layout, engine, std::move(transport), [&] { together.arrive_and_wait(); });
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), fails(rank) ? ErrorCode::out_of_memory : ErrorCode::lost_rank)
              << error.what();
          ++count;
        }
      };
      run_local(layout.ranks(), body);
      failed = count;
      // Under sequence parallelism nobody needs anything of a rank whose last stage fails.
      EXPECT_TRUE(failed != 1 || layout.sequence_parallel) << name << ", stage " << stages;
    }
    EXPECT_GT(stages, 10);
  }
}

// It says so itself, before a stage writes where others may still read: the transport would say it too late.
TEST(Windows, APlanWhoseCallHasFailedComputesNoMore) {
  run_local(2, [](int rank, const std::shared_ptr<Transport>& transport) {
    constexpr std::int64_t kRows = 8, kHidden = 24, kHeld = 64;
    PlanOptions options;
    options.contract = parse_contract("bf16-tree-v1");
    options.shape = {kHidden, 2 * kHeld};
    options.max_tokens = kRows;
    options.layout = {2, 1, false};
    options.cover_exchange = CoverExchange::slice_owner;
    options.backward = false;
    options.transport = transport;
    if (rank == 0) options.engine = std::make_shared<FailingEngine>(1);
    Plan plan(options);
    std::vector<std::uint16_t> x(kRows * kHidden), y(kRows * kHidden), weight(kHeld * kHidden);
    ForwardArgs args;
    args.x = host_view(std::as_const(x).data(), kRows, kHidden);
    args.y = host_view(y.data(), kRows, kHidden);
    args.weights.gate = args.weights.up = host_view(std::as_const(weight).data(), kHeld, kHidden);
    args.weights.down = host_view(std::as_const(weight).data(), kHidden, kHeld);
    args.tokens = kRows;
    const auto failure = [&](ErrorCode code) {
      try {
        plan.forward(args);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        return std::string(error.what());
      }
      ADD_FAILURE() << "no error";
      return std::string();
    };
    const std::string first = failure(rank == 0 ? ErrorCode::out_of_memory : ErrorCode::lost_rank);
    EXPECT_EQ(failure(ErrorCode::lost_rank), first);
  });
}

}  // namespace
}  // namespace samebits::test
