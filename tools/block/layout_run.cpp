#include "block/layout_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "block/rank_tokens.hpp"
#include "block/run_ranks.hpp"
#include "block/staging.hpp"
#include "samebits/plan.hpp"
#include "samebits/transport.hpp"

namespace samebits::tools {
namespace {

constexpr int kMostLocalRanks = 256;

// Most layouts that are not allowed are known when the plan is made; a token shard that cuts inside a leaf,
// where covers of the gradients must be exchanged, is known when it is called.
template <class Body>
auto allowed(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::refused && error.code() != ErrorCode::invalid_argument) throw;
    throw LayoutRefused(error.code(), error.what());
  }
}

class RankRun {
 public:
  // `block`: the weights where the engine reads them, the tokens on the host.
  RankRun(const Compute& compute, const BlockCase& block, const LayoutRun& run, const TokenShards& shards,
          int rank, std::shared_ptr<Transport> transport)
      : compute_(compute),
        block_(block),
        run_(run),
        shards_(shards),
        rank_(rank),
        tokens_(tokens_of_rank(shards, run.layout, rank)),
        transport_(std::move(transport)),
        engine_(compute.make_engine(std::max(1, compute.threads / run.layout.ranks()))),
        staging_(compute.device_engine) {}

  void go(BlockTensors& out) {
    const HostTensor x = local_rows(block_.x, tokens_);
    const ConstView x_there = staging_.input(x.view());
    HostTensor y(x.view().rows, block_.shape.hidden);
    if (run_.inference) {
      Plan plan = make_plan(false);
      forward(plan, x_there, y);
      record(kOutput, y, out);
    }
    if (run_.training) {
      Plan plan = make_plan(true);
      forward(plan, x_there, y);
      record(kTrainingOutput, y, out);
      backward(plan, x_there, local_rows(block_.dy, tokens_), y, out);  // y serves dx
    }
  }

  const LayoutOutcome& outcome() const { return outcome_; }

 private:
  Plan make_plan(bool with_backward) const {
    PlanOptions options = compute_.plan_options(block_.shape, block_.tokens, run_.layout, with_backward);
    options.engine = engine_;
    options.transport = transport_;
    options.control = run_.control;
    return allowed([&] { return Plan(options); });
  }

  void forward(Plan& plan, const ConstView& x, HostTensor& y) {
    y.poison();
    const View y_there = staging_.output(y.view());
    ForwardArgs args;
    args.x = x;
    args.y = y_there;
    args.weights = plan.slice(block_.gate, block_.up, block_.down);
    args.shards = &shards_;
    args.tokens = block_.tokens;
    args.queue = staging_.queue();
    plan.forward(args);
    staging_.fetch(y.view(), y_there);
  }

  // `dx` is scratch for the rank's rows of dx.
  void backward(Plan& plan, const ConstView& x, const HostTensor& dy, HostTensor& dx, BlockTensors& out) {
    const Interval rows = plan.shard().intermediate;
    const Shape& shape = block_.shape;
    HostTensor gate_replica, up_replica, down_replica;
    View d_gate, d_up, d_down;
    if (rank_ < run_.layout.tp) {  // context rank 0
      d_gate = out.view(kGateGradient).slice_rows(rows.begin, rows.end);
      d_up = out.view(kUpGradient).slice_rows(rows.begin, rows.end);
      d_down = out.view(kDownGradient).slice_cols(rows.begin, rows.end);
    } else {
      gate_replica = HostTensor(rows.length(), shape.hidden, block_.gradients);
      up_replica = HostTensor(rows.length(), shape.hidden, block_.gradients);
      down_replica = HostTensor(shape.hidden, rows.length(), block_.gradients);
      for (HostTensor* replica : {&gate_replica, &up_replica, &down_replica}) replica->poison();
      d_gate = gate_replica.view();
      d_up = up_replica.view();
      d_down = down_replica.view();
    }

    dx.poison();
    BackwardArgs args;
    args.x = x;
    args.dy = staging_.input(dy.view());
    args.weights = plan.slice(block_.gate, block_.up, block_.down);
    args.dx = staging_.output(dx.view());
    args.d_gate = staging_.output(d_gate);
    args.d_up = staging_.output(d_up);
    args.d_down = staging_.output(d_down);
    args.shards = &shards_;
    args.tokens = block_.tokens;
    args.queue = staging_.queue();
    allowed([&] { plan.backward(args); });
    staging_.fetch(dx.view(), args.dx);
    staging_.fetch(d_gate, args.d_gate);
    staging_.fetch(d_up, args.d_up);
    staging_.fetch(d_down, args.d_down);

    record(kHiddenGradient, dx, out);
    if (run_.exact == nullptr) return;
    compare(kGateGradient, d_gate, run_.exact->view(kGateGradient).slice_rows(rows.begin, rows.end));
    compare(kUpGradient, d_up, run_.exact->view(kUpGradient).slice_rows(rows.begin, rows.end));
    compare(kDownGradient, d_down, run_.exact->view(kDownGradient).slice_cols(rows.begin, rows.end));
  }

  // A token tensor of this rank: compared, and written where it belongs by the rank that owns the rows.
  void record(BlockTensor which, const HostTensor& local, BlockTensors& out) {
    const bool owner = rank_ % run_.layout.tp == 0 || run_.layout.sequence_parallel;
    for_each_local(tokens_, [&](const Interval& interval, const Interval& rows) {
      const ConstView mine = local.view().slice_rows(rows.begin, rows.end);
      if (owner) copy_rows(out.view(which).slice_rows(interval.begin, interval.end), mine);
      if (run_.exact != nullptr)
        compare(which, mine, exact_rows(which).slice_rows(interval.begin, interval.end));
    });
  }

  // Training and inference must agree too: both are held against the inference output.
  ConstView exact_rows(BlockTensor which) const {
    return run_.exact->view(which == kTrainingOutput ? kOutput : which);
  }

  void compare(BlockTensor which, const ConstView& mine, const ConstView& exact) {
    outcome_.differing[which] += count_differing(mine, exact);
    outcome_.compared[which] += mine.elements();
  }

  const Compute& compute_;
  const BlockCase& block_;
  const LayoutRun& run_;
  const TokenShards& shards_;
  int rank_;
  std::vector<Interval> tokens_;
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<engine::Engine> engine_;
  Staging staging_;
  LayoutOutcome outcome_;
};

}  // namespace

LayoutOutcome run_layout(const Compute& compute, const BlockCase& block, const LayoutRun& run,
                         BlockTensors& out) {
  const int ranks = run.layout.ranks();
  if (ranks > kMostLocalRanks) {
    throw LayoutRefused(ErrorCode::refused,
                        fmt::format("layout {}: {} ranks; the local transport plays at most {} as threads",
                                    name_of(run.layout), ranks, kMostLocalRanks));
  }
  const TokenShards shards = compute.shards(block.tokens, run.layout.cp);
  const auto begun = std::chrono::steady_clock::now();
  out.poison();  // what an earlier layout left there would hide an element that this one forgets
  Staging weights(compute.device_engine);  // whole, one copy for all ranks
  BlockCase there = block;
  there.gate = weights.input(block.gate);
  there.up = weights.input(block.up);
  there.down = weights.input(block.down);
  LayoutOutcome total;
  std::mutex total_mutex;
  const auto play = [&](int rank, std::shared_ptr<Transport> transport) {
    RankRun rank_run(compute, there, run, shards, rank, std::move(transport));
    rank_run.go(out);
    const std::lock_guard lock(total_mutex);
    for (int which = 0; which < kBlockTensors; ++which) {
      total.differing[which] += rank_run.outcome().differing[which];
      total.compared[which] += rank_run.outcome().compared[which];
    }
  };
  run_ranks(run.layout, play);
  total.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return total;
}

}  // namespace samebits::tools
