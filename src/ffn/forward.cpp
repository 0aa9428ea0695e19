// y = down(swiglu(gate(x), up(x))), top to bottom.
#include <algorithm>

#include "ffn/plan_impl.hpp"
#include "ffn/tensor/cover_slices.hpp"
#include "samebits/error.hpp"

namespace samebits {

void Plan::Impl::forward(const ForwardArgs& args) {
  const Call call = begin_call(args.shards, args.tokens, args.x.rows, args.queue);
  const bool wants_y = args.y.cols > 0;
  check_view("x", args.x, call.slice.length(), options.shape.hidden);
  if (wants_y) check_view("y", args.y, call.slice.length(), options.shape.hidden);
  const Pass pass = wants_y ? Pass::forward : Pass::activations;
  check_weights(args.weights, pass);
  const bool keep = options.backward || !own_saved(args.saved);
  if (!wants_y && !keep) {
    throw Error(ErrorCode::invalid_argument,
                "y is empty, and nothing of an inference plan's forward is kept");
  }
  const Saved saved = saved_for(call, args.saved);
  if (options.check_replicas) compare_replicas(call, args.x, {}, args.weights, pass, wants_y ? "y" : "no y");

  if (own_saved(args.saved)) leave_own(call);

  const ConstView x = arrived(gathered_tokens(args.x, x_tokens, call), call);  // [held, H]
  const engine::GateUp gate_up{x, args.weights.gate, args.weights.up, saved.gate, saved.up, saved.act, keep};

  if (!wants_y) {
    block->gate_up(gate_up, call.queue);
    return;
  }
  if (!sharded()) {
    block->gate_up_down(
        gate_up, {saved.act, args.weights.down, {0, options.shape.intermediate}, {{}, args.y}}, call.queue);
    return;
  }
  const View y = output_or_staging(args.y, call);
  Ticket arrival;
  if (by_rows()) {
    // Every rank gathers the activation and finishes its columns of y: no sum crosses ranks.
    block->gate_up(gate_up, call.queue);
    const View all = ffn::packed(wide, call.held, options.shape.intermediate);
    exchanges->wait(gather_intermediate->all_rows(saved.act, all, call.queue), call.queue);
    const View mine = ffn::packed(part, call.held, shard.hidden.length());
    block->down({all, args.weights.down_rows, {0, options.shape.intermediate}, {{}, mine}}, call.queue);
    arrival = distribute_columns(mine, y, call);
  } else {
    arrival = forward_by_columns(gate_up, args.weights.down, y, call);
  }
  deliver(args.y, y, arrival, call);
}

// Chunk by chunk of the rows: the covers of one are on their way while the next one's are computed.
Plan::Impl::Ticket Plan::Impl::forward_by_columns(const engine::GateUp& gate_up,
                                                  const ConstView& down_columns, const View& y,
                                                  const Call& call) {
  const std::int64_t step = covers->begin(1, call.held);
  Interval rows{}, before{};
  const auto finish = [&](const Interval& made) {
    return covers->finish(made.length(), rows_of(y, made, call), *block, call.queue);
  };
  do {
    before = rows;
    rows = {before.end, std::min(before.end + step, call.held)};
    engine::GateUp chunk = gate_up;
    chunk.x = gate_up.x.slice_rows(rows.begin, rows.end);
    chunk.gate_out = gate_up.gate_out.slice_rows(rows.begin, rows.end);
    chunk.up_out = gate_up.up_out.slice_rows(rows.begin, rows.end);
    chunk.act = gate_up.act.slice_rows(rows.begin, rows.end);
    const engine::CoverView cover = covers->cover(call.queue);
    if (ffn::at_once(cover, *block)) {
      block->gate_up_down(chunk, {chunk.act, down_columns, shard.intermediate, {cover, {}}}, call.queue);
    } else {
      block->gate_up(chunk, call.queue);
      ffn::for_each_slice(cover, [&](const Interval& in, const engine::CoverView& slice) {
        block->down({chunk.act.slice_rows(in.begin, in.end), down_columns, shard.intermediate, {slice, {}}},
                    call.queue);
      });
    }
    covers->exchange(rows.length(), call.queue);
    if (before.length() > 0) finish(before);
  } while (rows.end < call.held);
  return finish(rows);
}

// Columns of y or dX from every tensor rank to all of them, or each its slice of the tokens.
Plan::Impl::Ticket Plan::Impl::distribute_columns(const ConstView& mine, const View& out, const Call& call) {
  return options.layout.sequence_parallel ? gather_hidden->own_rows(mine, out, call.queue)
                                          : gather_hidden->all_rows(mine, out, call.queue);
}

}  // namespace samebits
