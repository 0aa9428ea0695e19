// y = down(swiglu(gate(x), up(x))), top to bottom.
#include "ffn/plan_impl.hpp"

namespace samebits {

void Plan::Impl::forward(const ForwardArgs& args) {
  const Call call = begin_call(args.shards, args.tokens, args.x.rows, args.queue);
  check_view("x", args.x, call.slice.length(), options.shape.hidden);
  check_view("y", args.y, call.slice.length(), options.shape.hidden);
  check_weights(args.weights, false);
  const Saved saved = saved_for(call, args.saved);

  if (own_saved(args.saved)) saved_tokens = call.shards->tokens;

  const ConstView x = gathered_tokens(args.x, x_tokens, call);  // [held, H]
  const bool keep = options.backward || !own_saved(args.saved);
  const engine::GateUp gate_up{x, args.weights.gate, args.weights.up, saved.gate, saved.up, saved.act, keep};

  if (!sharded()) {
    block->gate_up_down(
        gate_up, {saved.act, args.weights.down, {0, options.shape.intermediate}, {{}, args.y}}, call.queue);
    return;
  }
  const View y = output_or_staging(args.y);
  if (by_rows()) {
    // Every rank gathers the activation and finishes its columns of y: no sum crosses ranks.
    block->gate_up(gate_up, call.queue);
    const View all = ffn::packed(wide, call.held, options.shape.intermediate);
    gather_intermediate->all_rows(saved.act, all, call.queue);
    const View mine = ffn::packed(part, call.held, shard.hidden.length());
    block->down({all, args.weights.down_rows, {0, options.shape.intermediate}, {{}, mine}}, call.queue);
    distribute_columns(mine, y, call);
  } else {
    block->gate_up_down(gate_up, {saved.act, args.weights.down, shard.intermediate, {covers->cover(), {}}},
                        call.queue);
    covers->exchange(0, call.held, call.queue);
    covers->finish(1, call.held, y, *block, call.queue);
  }
  deliver(args.y, y, call);
}

// Columns of y or dX from every tensor rank to all of them, or each its slice of the tokens.
void Plan::Impl::distribute_columns(const ConstView& mine, const View& out, const Call& call) {
  if (options.layout.sequence_parallel) {
    gather_hidden->own_rows(mine, out, call.queue);
  } else {
    gather_hidden->all_rows(mine, out, call.queue);
  }
}

}  // namespace samebits
