#include "block/rank_run.hpp"

#include <utility>

#include "block/layout_refused.hpp"
#include "block/process_group.hpp"
#include "block/rank_tokens.hpp"

namespace samebits::tools {
namespace {

// The rank's shard of a gradient, where the sink wants it or in memory of its own.
class GradientShard {
 public:
  GradientShard(ResultSink& sink, int rank, BlockTensor which, const Interval& intermediate,
                std::int64_t hidden, DType dtype)
      : view_(sink.place(rank, which, intermediate)), made_{rank, which, intermediate, {}} {
    if (view_.data == nullptr) {
      const bool down = which == kDownGradient;
      own_ = HostTensor(down ? hidden : intermediate.length(), down ? intermediate.length() : hidden, dtype);
      own_.poison();
      view_ = own_.view();
    }
    made_.tensor = view_;
  }

  const View& view() const { return view_; }
  const RankTensor& made() const { return made_; }

 private:
  HostTensor own_;
  View view_;
  RankTensor made_;
};

}  // namespace

RankRun::RankRun(const Compute& compute, const BlockCase& block, const LayoutRun& run,
                 const TokenShards& shards, int rank, std::shared_ptr<Transport> transport)
    : compute_(compute),
      block_(block),
      run_(run),
      shards_(shards),
      rank_(rank),
      tokens_(tokens_of_rank(shards, run.layout, rank)),
      transport_(std::move(transport)),
      engine_(compute.make_engine(compute.threads_of_rank(run.layout.ranks()))),
      staging_(compute.device_engine) {}

void RankRun::go(ResultSink& sink) {
  const HostTensor x = local_rows(block_.x, tokens_);
  const ConstView x_there = staging_.input(x.view());
  HostTensor y(x.view().rows, block_.shape.hidden);
  if (run_.inference) {
    Plan plan = make_plan(false);
    forward(plan, x_there, y);
    sink.take({rank_, kOutput, {}, y.view()});
  }
  if (run_.training) {
    Plan plan = make_plan(true);
    forward(plan, x_there, y);
    sink.take({rank_, kTrainingOutput, {}, y.view()});
    backward(plan, x_there, local_rows(block_.dy, tokens_), y, sink);  // y serves dx
  }
}

Plan RankRun::make_plan(bool with_backward) const {
  PlanOptions options = compute_.plan_options(block_.shape, block_.tokens, run_.layout, with_backward);
  options.engine = engine_;
  options.transport = transport_;
  options.control = run_.control;
  return allowed([&] { return Plan(options); });
}

// A stream that was let go because a rank is lost holds nothing of worth. The next call says so.
void RankRun::require_ranks() const {
  if (transport_) exchange_nothing(*transport_, engine_->device().space);
}

void RankRun::forward(Plan& plan, const ConstView& x, HostTensor& y) {
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
  require_ranks();
}

void RankRun::backward(Plan& plan, const ConstView& x, const HostTensor& dy, HostTensor& dx,
                       ResultSink& sink) {
  const auto shard = [&](BlockTensor which) {
    return GradientShard(sink, rank_, which, plan.shard().intermediate, block_.shape.hidden,
                         block_.gradients);
  };
  const GradientShard d_gate = shard(kGateGradient), d_up = shard(kUpGradient), d_down = shard(kDownGradient);

  dx.poison();
  BackwardArgs args;
  args.x = x;
  args.dy = staging_.input(dy.view());
  args.weights = plan.slice(block_.gate, block_.up, block_.down);
  args.dx = staging_.output(dx.view());
  args.d_gate = staging_.output(d_gate.view());
  args.d_up = staging_.output(d_up.view());
  args.d_down = staging_.output(d_down.view());
  args.shards = &shards_;
  args.tokens = block_.tokens;
  args.queue = staging_.queue();
  allowed([&] { plan.backward(args); });
  staging_.fetch(dx.view(), args.dx);
  staging_.fetch(d_gate.view(), args.d_gate);
  staging_.fetch(d_up.view(), args.d_up);
  staging_.fetch(d_down.view(), args.d_down);
  require_ranks();

  sink.take({rank_, kHiddenGradient, {}, std::as_const(dx).view()});
  for (const GradientShard* gradient : {&d_gate, &d_up, &d_down}) sink.take(gradient->made());
}

}  // namespace samebits::tools
