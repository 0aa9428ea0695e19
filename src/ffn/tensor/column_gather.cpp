#include "ffn/tensor/column_gather.hpp"

namespace samebits::ffn {

ColumnGather::ColumnGather(std::vector<std::int64_t> cuts, Ranks& ranks, engine::Engine& engine,
                           Workspace& workspace, ExchangeLane& exchanges, std::int64_t most_rows)
    : cuts_(std::move(cuts)),
      ranks_(ranks),
      engine_(engine),
      exchanges_(exchanges),
      staging_(workspace.matrix(most_rows, cuts_.back())),
      send_bytes_(static_cast<std::size_t>(ranks.tp)),
      receive_bytes_(static_cast<std::size_t>(ranks.tp)) {}

ExchangeLane::Ticket ColumnGather::all_rows(const ConstView& block, const View& out, Queue queue) {
  return exchanges_.put([this, block, out](Queue on) { move_all_rows(block, out, on); }, queue);
}

ExchangeLane::Ticket ColumnGather::own_rows(const ConstView& block, const View& out, Queue queue) {
  return exchanges_.put([this, block, out](Queue on) { move_own_rows(block, out, on); }, queue);
}

void ColumnGather::move_all_rows(const ConstView& block, const View& out, Queue queue) {
  for (int rank = 0; rank < ranks_.tp; ++rank) {
    receive_bytes_[static_cast<std::size_t>(rank)] =
        checked_bytes(block.rows, width(rank), size_of(DType::bf16));
  }
  ranks_.tensor->all_gather(block.data, staging_.data, receive_bytes_, engine_.device().space, queue);
  place(block.rows, out, queue);
}

void ColumnGather::move_own_rows(const ConstView& block, const View& out, Queue queue) {
  for (int rank = 0; rank < ranks_.tp; ++rank) {
    const std::int64_t theirs = even_slice(block.rows, ranks_.tp, rank).length();
    send_bytes_[static_cast<std::size_t>(rank)] = checked_bytes(theirs, block.cols, size_of(DType::bf16));
    receive_bytes_[static_cast<std::size_t>(rank)] =
        checked_bytes(out.rows, width(rank), size_of(DType::bf16));
  }
  ranks_.tensor->all_to_all(block.data, send_bytes_, staging_.data, receive_bytes_, engine_.device().space,
                            queue);
  place(out.rows, out, queue);
}

void ColumnGather::place(std::int64_t rows, const View& out, Queue queue) {
  auto* from = static_cast<unsigned char*>(staging_.data);
  for (int rank = 0; rank < ranks_.tp; ++rank) {
    View arrived = packed(staging_, rows, width(rank));
    arrived.data = from;
    const auto at = static_cast<std::size_t>(rank);
    if (!arrived.empty()) engine_.copy(out.slice_cols(cuts_[at], cuts_[at + 1]), arrived, queue);
    from += receive_bytes_[at];
  }
}

}  // namespace samebits::ffn
