#include "samebits/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ffn/plan_impl.hpp"
#include "ffn/rank/handshake.hpp"
#include "ffn/rank/or_abort.hpp"
#include "samebits/error.hpp"

namespace samebits {
namespace {

void check_options(const PlanOptions& o) {
  if (o.shape.hidden < 1 || o.shape.intermediate < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("shape {}x{}: hidden and intermediate size count from 1", o.shape.hidden,
                            o.shape.intermediate));
  }
  if (o.max_tokens < 0 || o.max_rank_tokens < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} tokens: a count is not negative", std::min(o.max_tokens, o.max_rank_tokens)));
  }
  if (std::min({o.chunks.most, o.chunks.least_rows, o.chunks.multiple}) < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("at most {} chunks of at least {} rows, by {}: all three count from 1",
                            o.chunks.most, o.chunks.least_rows, o.chunks.multiple));
  }
  // Everything a plan indexes: activations of all tokens with a tree's worth of nodes, and the weights.
  const std::int64_t widest = std::max(o.shape.hidden, o.shape.intermediate);
  ffn::checked_bytes(std::max(o.max_tokens, o.max_rank_tokens), widest, 1024);
  ffn::checked_bytes(o.shape.hidden, o.shape.intermediate, 1024);
}

}  // namespace

Plan::Impl::Impl(const PlanOptions& given)
    : options(given), engine(given.engine ? given.engine : make_cpu_engine()), workspace(*engine) {
  if (!options.transport) options.transport = self_transport();
  const MemorySpace space = engine->device().space;
  if (options.transport->size() > 1 && !options.transport->reaches(space)) {
    throw Error(
        ErrorCode::refused,
        fmt::format("transport {} does not reach the memory of engine {}: take another transport, or a "
                    "build for that processor alone",
                    options.transport->name(), engine->name()));
  }
  const bool overlaps = ffn::shake_hands(options, *engine);
  ffn::refuse_together([&] { check_options(options); });
  const Contract& contract = options.contract;
  const Shape& shape = options.shape;
  hidden_axis = numerics::axis_tree(contract, contract.hidden, shape.hidden);
  intermediate_axis = numerics::axis_tree(contract, contract.intermediate, shape.intermediate);
  token_axis = numerics::axis_tree(contract, contract.tokens, options.max_tokens);
  intermediate_axis.moved = token_axis.moved = options.control;

  ffn::refuse_together(
      [&] { ranks = ffn::make_ranks(options.layout, options.transport, options.ranks_per_node); });
  exchanges = ffn::make_exchange_lane(*engine, overlaps);
  if (options.max_rank_tokens == 0) {
    options.max_rank_tokens =
        std::min(options.max_tokens, 2 * ((options.max_tokens + 2 * ranks.cp - 1) / (2 * ranks.cp)));
  }
  ffn::refuse_together([&] { cuts = ffn::choose_weight_cuts(options, intermediate_axis); });
  const auto t = static_cast<std::size_t>(ranks.tp_rank);
  shard.tp_rank = ranks.tp_rank;
  shard.cp_rank = ranks.cp_rank;
  shard.intermediate = {cuts.intermediate[t], cuts.intermediate[t + 1]};
  shard.hidden = by_rows() ? Interval{cuts.hidden[t], cuts.hidden[t + 1]} : Interval{0, shape.hidden};

  const std::int64_t held = shard.intermediate.length(), tokens = options.max_rank_tokens;
  block = engine->prepare({contract, hidden_axis, intermediate_axis, token_axis, tokens,
                           by_rows() ? shape.intermediate : held, options.backward});
  if (options.own_saved) {
    gate = workspace.matrix(tokens, held);
    up = workspace.matrix(tokens, held);
    act = workspace.matrix(tokens, held);
  }
  if (options.backward) {
    d_gate = workspace.matrix(tokens, held);
    d_up = workspace.matrix(tokens, held);
  }
  if (ranks.tp > 1 || ranks.cp > 1) pack = workspace.matrix(tokens, shape.hidden);
  if (sharded() && options.layout.sequence_parallel) {
    x_tokens = workspace.matrix(tokens, shape.hidden);
    if (options.backward) dy_tokens = workspace.matrix(tokens, shape.hidden);
  }
  if (sharded() && !by_rows()) {
    covers.emplace(options, intermediate_axis, cuts.intermediate, ranks, *engine, workspace, *exchanges,
                   options.backward ? 2 : 1, tokens);
  }
  if (by_rows()) {
    wide = workspace.matrix(tokens, shape.intermediate);
    if (options.backward) wide_up = workspace.matrix(tokens, shape.intermediate);
    part = workspace.matrix(tokens, shard.hidden.length());
    gather_intermediate.emplace(cuts.intermediate, ranks, *engine, workspace, *exchanges, tokens);
    gather_hidden.emplace(cuts.hidden, ranks, *engine, workspace, *exchanges, tokens);
  }
  if (options.backward) reduction.emplace(options, ranks, *engine, workspace, *exchanges, held);
  token_bytes.resize(static_cast<std::size_t>(ranks.tp));
  even_shards = TokenShards::contiguous(options.max_tokens, ranks.cp);
  for (auto& intervals : even_shards.of_rank) intervals.reserve(1);
  places.resize(static_cast<std::size_t>(ranks.cp));
  for (ffn::TokenPlaces& of_rank : places) of_rank.reserve(2);  // zigzag's
  saved_of.reserve(2);
}

Plan::Impl::Tokens Plan::Impl::gathered_tokens(const ConstView& mine, const View& buffer, const Call& call) {
  if (!sharded() || !options.layout.sequence_parallel) return {mine, {}};
  const ConstView send = packed_copy(mine, call);
  const View all = ffn::packed(buffer, call.held, mine.cols);
  const Ticket arrival = exchanges->put(
      [this, send, all](Queue queue) {
        for (int rank = 0; rank < ranks.tp; ++rank) {
          token_bytes[static_cast<std::size_t>(rank)] = ffn::checked_bytes(
              even_slice(all.rows, ranks.tp, rank).length(), all.cols, size_of(DType::bf16));
        }
        ranks.tensor->all_gather(send.data, all.data, token_bytes, engine->device().space, queue);
      },
      call.queue);
  pack_reader = arrival;
  return {all, arrival};
}

ConstView Plan::Impl::arrived(const Tokens& tokens, const Call& call) {
  exchanges->wait(tokens.arrival, call.queue);
  return tokens.view;
}

View Plan::Impl::free_pack(std::int64_t rows, std::int64_t cols, const Call& call) {
  exchanges->wait(pack_reader, call.queue);
  return ffn::packed(pack, rows, cols);
}

ConstView Plan::Impl::packed_copy(const ConstView& operand, const Call& call) {
  if (operand.contiguous()) return operand;
  const View copy = free_pack(operand.rows, operand.cols, call);
  engine->copy(copy, operand, call.queue);
  return copy;
}

View Plan::Impl::output_or_staging(const View& out, const Call& call) {
  return out.contiguous() ? out : free_pack(out.rows, out.cols, call);
}

void Plan::Impl::deliver(const View& out, const View& staged, Ticket arrival, const Call& call) {
  if (staged.data == out.data) return;  // the end of the call waits
  exchanges->wait(arrival, call.queue);
  engine->copy(out, staged, call.queue);
}

Plan::Plan(const PlanOptions& options) {
  ffn::or_abort(
      options.transport.get(), [&] { impl_ = std::make_unique<Impl>(options); }, [] {});
}
Plan::~Plan() = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;

void Plan::forward(const ForwardArgs& args) {
  impl_->run(args.queue, [&] { impl_->forward(args); });
}
void Plan::backward(const BackwardArgs& args) {
  impl_->run(args.queue, [&] { impl_->backward(args); });
}
const RankShard& Plan::shard() const { return impl_->shard; }
DownCut Plan::down() const { return impl_->cuts.down; }
bool Plan::holds_both_cuts() const { return impl_->cuts.both; }
std::size_t Plan::workspace_bytes() const {
  return impl_->workspace.bytes() + impl_->block->workspace_bytes();
}
double Plan::exposed_seconds() const { return impl_->exchanges->exposed_seconds(); }

Weights Plan::slice(const ConstView& gate, const ConstView& up, const ConstView& down) const {
  const Shape shape = impl_->options.shape;
  Impl::check_shape("gate", gate, shape.intermediate, shape.hidden);
  Impl::check_shape("up", up, shape.intermediate, shape.hidden);
  Impl::check_shape("down", down, shape.hidden, shape.intermediate);
  const Interval i = impl_->shard.intermediate, h = impl_->shard.hidden;
  Weights weights{gate.slice_rows(i.begin, i.end),
                  up.slice_rows(i.begin, i.end),
                  down.slice_cols(i.begin, i.end),
                  {},
                  {},
                  {}};
  if (impl_->by_rows()) {
    weights.gate_columns = gate.slice_cols(h.begin, h.end);
    weights.up_columns = up.slice_cols(h.begin, h.end);
    weights.down_rows = down.slice_rows(h.begin, h.end);
  }
  return weights;
}

}  // namespace samebits
