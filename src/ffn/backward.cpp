// dX and the weight gradients from dY and what forward saved, top to bottom.
#include <fmt/format.h>

#include "ffn/plan_impl.hpp"
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
  check_weights(args.weights, true);
  if (own_saved(args.saved) && saved_tokens != call.shards->tokens) {
    throw Error(
        ErrorCode::invalid_argument,
        saved_tokens < 0
            ? std::string("backward before any forward of this plan left its activations")
            : fmt::format("backward of {} tokens, but the plan's last forward had {}; keep activations "
                          "of several forwards in ForwardArgs::saved",
                          call.shards->tokens, saved_tokens));
  }
  const Saved saved = saved_for(call, args.saved);
  const View dg = ffn::packed(d_gate, call.held, shard.intermediate.length());
  const View du = ffn::packed(d_up, call.held, shard.intermediate.length());

  const ConstView dy = gathered_tokens(args.dy, dy_tokens, call);  // [held, H]
  const engine::DAct d_act{dy, args.weights.down, saved.gate, saved.up, dg, du};

  if (wants_dx && !sharded()) {
    block->d_act_hidden(d_act, {dg, du, args.weights.gate, args.weights.up, {0, intermediate}, args.dx},
                        call.queue);
  } else {
    block->d_act(d_act, call.queue);
  }
  if (wants_dx && sharded()) {
    const View dx = output_or_staging(args.dx);
    if (by_rows()) {
      const View all_gate = ffn::packed(wide, call.held, intermediate),
                 all_up = ffn::packed(wide_up, call.held, intermediate);
      gather_intermediate->all_rows(dg, all_gate, call.queue);
      gather_intermediate->all_rows(du, all_up, call.queue);
      const View mine = ffn::packed(part, call.held, shard.hidden.length());
      block->d_hidden(
          {all_gate, all_up, args.weights.gate_columns, args.weights.up_columns, {0, intermediate}, mine},
          call.queue);
      distribute_columns(mine, dx, call);
    } else {
      block->d_hidden_lane({dg, args.weights.gate, shard.intermediate, covers->cover()}, call.queue);
      covers->exchange(0, call.held, call.queue);
      block->d_hidden_lane({du, args.weights.up, shard.intermediate, covers->cover()}, call.queue);
      covers->exchange(1, call.held, call.queue);
      covers->finish(2, call.held, dx, *block, call.queue);
    }
    deliver(args.dx, dx, call);
  }

  if (!wants_gradients && args.accumulate == nullptr) return;
  const ConstView x = gathered_tokens(args.x, x_tokens, call);
  begin_gradients(args, call);
  using Slot = ffn::TokenReduction::Slot;
  using Sum = ffn::Accumulation;
  const auto reduce = [&](Sum::Which which, const ConstView& left, const ConstView& right, const View& out) {
    if (args.accumulate != nullptr) {
      sum_of(*args.accumulate).add(which, left, right, *block, call.queue);
    } else {
      reduction->reduce(left, right, out, *block, call.queue);
    }
  };
  const ConstView all_x = reduction->operand(Slot::kX, packed_operand(x, call), call.queue);
  reduce(Sum::kGate, reduction->operand(Slot::kGate, dg, call.queue), all_x, args.d_gate);
  reduce(Sum::kUp, reduction->operand(Slot::kUp, du, call.queue), all_x, args.d_up);
  const ConstView all_dy = reduction->operand(Slot::kDy, packed_operand(dy, call), call.queue);
  reduce(Sum::kDown, all_dy, reduction->operand(Slot::kAct, saved.act, call.queue), args.d_down);
  if (args.accumulate != nullptr) sum_of(*args.accumulate).commit();
}

}  // namespace samebits
