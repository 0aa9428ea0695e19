// dX and the weight gradients from dY and what forward saved, top to bottom.
#include <fmt/format.h>

#include <algorithm>

#include "ffn/plan_impl.hpp"
#include "ffn/tensor/cover_slices.hpp"
#include "samebits/error.hpp"

namespace samebits {

void Plan::Impl::backward(const BackwardArgs& args) {
  if (!options.backward) throw Error(ErrorCode::invalid_argument, "the plan was made without backward");
  const Call call = begin_call(args.shards, args.tokens, args.dy.rows, args.queue);
  const std::int64_t hidden = options.shape.hidden, intermediate = options.shape.intermediate;
  const bool wants_gradients = args.d_gate.rows + args.d_up.rows + args.d_down.rows > 0;
  const bool wants_dx = args.dx.cols > 0;
  check_view("x", args.x, call.slice.length(), hidden);
  check_view("dy", args.dy, call.slice.length(), hidden);
  if (wants_dx) check_view("dx", args.dx, call.slice.length(), hidden);
  if (wants_gradients) check_gradients({args.d_gate, args.d_up, args.d_down});
  check_accumulation(args, call, wants_gradients);
  const bool sums_tokens = wants_gradients || args.accumulate != nullptr;
  check_weights(args.weights, Pass::backward);
  // Shards that differ between ranks are an error of all of them, before they are one of this rank.
  if (options.check_replicas)
    compare_replicas(call, args.x, args.dy, args.weights, Pass::backward, words_of(args, call));
  if (own_saved(args.saved)) require_own(call);
  const Saved saved = saved_for(call, args.saved);
  const View dg = ffn::packed(d_gate, call.held, shard.intermediate.length());
  const View du = ffn::packed(d_up, call.held, shard.intermediate.length());

  using Slot = ffn::TokenReduction::Slot;
  if (sums_tokens) begin_gradients(args, call);
  const ConstView dy = arrived(gathered_tokens(args.dy, dy_tokens, call), call);  // [held, H]
  // What the weight gradients take travels while dA and dX are computed.
  if (sums_tokens) {
    start_operand(Slot::kX, gathered_tokens(args.x, x_tokens, call), call);
    start_operand(Slot::kDy, {dy, {}}, call);
    start_operand(Slot::kAct, {saved.act, {}}, call);
  }
  const engine::DAct d_act{dy, args.weights.down, saved.gate, saved.up, dg, du};

  if (wants_dx && !sharded()) {
    block->d_act_hidden(d_act, {dg, du, args.weights.gate, args.weights.up, {0, intermediate}, args.dx},
                        call.queue);
  } else {
    block->d_act(d_act, call.queue);
  }
  const auto start_gradients = [&] {
    if (!sums_tokens) return;
    start_operand(Slot::kGate, {dg, {}}, call);
    start_operand(Slot::kUp, {du, {}}, call);
  };
  const bool dx_by_rows = wants_dx && sharded() && by_rows();
  if (!dx_by_rows) start_gradients();

  View dx{};
  Ticket arrival;
  Interval last{};  // of dX, its covers on their way
  if (wants_dx && sharded()) {
    dx = output_or_staging(args.dx, call);
    if (dx_by_rows) {
      const View all_gate = ffn::packed(wide, call.held, intermediate),
                 all_up = ffn::packed(wide_up, call.held, intermediate);
      gather_intermediate->all_rows(dg, all_gate, call.queue);
      const Ticket gathered = gather_intermediate->all_rows(du, all_up, call.queue);
      start_gradients();  // behind what dX waits for
      exchanges->wait(gathered, call.queue);
      const View mine = ffn::packed(part, call.held, shard.hidden.length());
      block->d_hidden(
          {all_gate, all_up, args.weights.gate_columns, args.weights.up_columns, {0, intermediate}, mine},
          call.queue);
      arrival = distribute_columns(mine, dx, call);
    } else {
      last = exchange_dx(args.weights, dg, du, dx, call);
    }
  }
  const auto finish_dx = [&] {
    if (!wants_dx || !sharded()) return;
    if (!by_rows()) arrival = covers->finish(last.length(), rows_of(dx, last, call), *block, call.queue);
    deliver(args.dx, dx, arrival, call);
  };

  if (!sums_tokens) return finish_dx();
  using Sum = ffn::Accumulation;
  const auto reduce = [&](Sum::Which which, Slot left, Slot right, const View& out) {
    const ConstView l = reduction->operand(left, call.queue), r = reduction->operand(right, call.queue);
    if (args.accumulate != nullptr) {
      sum_of(*args.accumulate).add(which, l, r, *block, call.queue);
    } else {
      reduction->reduce(l, r, out, *block, call.queue);
    }
  };
  // First what has been on its way for longest; meanwhile the last of dX arrives.
  reduce(Sum::kDown, Slot::kDy, Slot::kAct, args.d_down);
  finish_dx();
  reduce(Sum::kGate, Slot::kGate, Slot::kX, args.d_gate);
  reduce(Sum::kUp, Slot::kUp, Slot::kX, args.d_up);
  if (args.accumulate != nullptr) sum_of(*args.accumulate).commit();
}

// Covers of dX, chunk by chunk of the rows: those of the gate lane are on their way while the up lane's are
// computed, and the other way round. The last chunk, which it returns, is left to be finished.
Interval Plan::Impl::exchange_dx(const Weights& weights, const View& dg, const View& du, const View& dx,
                                 const Call& call) {
  const std::int64_t step = covers->begin(2, call.held);
  Interval rows{}, before{};
  const auto lane = [&](const View& d, const ConstView& weight) {
    const View chunk = d.slice_rows(rows.begin, rows.end);
    const engine::CoverView cover = covers->cover(call.queue);
    if (ffn::at_once(cover, *block)) {
      block->d_hidden_lane({chunk, weight, shard.intermediate, cover}, call.queue);
    } else {
      ffn::for_each_slice(cover, [&](const Interval& in, const engine::CoverView& slice) {
        block->d_hidden_lane({chunk.slice_rows(in.begin, in.end), weight, shard.intermediate, slice},
                             call.queue);
      });
    }
    covers->exchange(rows.length(), call.queue);
  };
  do {
    before = rows;
    rows = {before.end, std::min(before.end + step, call.held)};
    lane(dg, weights.gate);
    if (before.length() > 0) covers->finish(before.length(), rows_of(dx, before, call), *block, call.queue);
    lane(du, weights.up);
  } while (rows.end < call.held);
  return rows;
}

// What travels between context ranks is packed.
void Plan::Impl::start_operand(ffn::TokenReduction::Slot slot, const Tokens& mine, const Call& call) {
  const ConstView operand = reduction->gathers() ? packed_copy(mine.view, call) : mine.view;
  const Ticket arrival = reduction->start(slot, operand, mine.arrival, call.queue);
  if (operand.data == pack.data) pack_reader = arrival;
}

}  // namespace samebits
