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
  RankRun(const Compute& compute, const BlockCase& block, const LayoutRun& run, const TokenShards& shards,
          int rank, std::shared_ptr<Transport> transport)
      : compute_(compute),
        block_(block),
        run_(run),
        shards_(shards),
        rank_(rank),
        tokens_(tokens_of_rank(shards, run.layout, rank)),
        transport_(std::move(transport)),
        engine_(compute.make_engine(std::max(1, compute.threads / run.layout.ranks()))) {}

  void go(BlockTensors& out) {
    const HostTensor x = local_rows(block_.x, tokens_);
    HostTensor y(x.view().rows, block_.shape.hidden);
    if (run_.inference) {
      Plan plan = make_plan(false);
      y.poison();
      plan.forward(forward_args(plan, x, y));
      record(kOutput, y, out);
    }
    if (run_.training) {
      Plan plan = make_plan(true);
      y.poison();
      plan.forward(forward_args(plan, x, y));
      record(kTrainingOutput, y, out);
      y.poison();  // now it serves dx
      backward(plan, x, local_rows(block_.dy, tokens_), y, out);
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

  ForwardArgs forward_args(const Plan& plan, const HostTensor& x, HostTensor& y) const {
    ForwardArgs args;
    args.x = x.view();
    args.y = y.view();
    args.weights = plan.slice(block_.gate, block_.up, block_.down);
    args.shards = &shards_;
    args.tokens = block_.tokens;
    return args;
  }

  // `dx` is scratch for the rank's rows of dx.
  void backward(Plan& plan, const HostTensor& x, const HostTensor& dy, HostTensor& dx, BlockTensors& out) {
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

    BackwardArgs args;
    args.x = x.view();
    args.dy = dy.view();
    args.weights = plan.slice(block_.gate, block_.up, block_.down);
    args.dx = dx.view();
    args.d_gate = d_gate;
    args.d_up = d_up;
    args.d_down = d_down;
    args.shards = &shards_;
    args.tokens = block_.tokens;
    allowed([&] { plan.backward(args); });

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
  LayoutOutcome total;
  std::mutex total_mutex;
  const auto play = [&](int rank, std::shared_ptr<Transport> transport) {
    RankRun rank_run(compute, block, run, shards, rank, std::move(transport));
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
