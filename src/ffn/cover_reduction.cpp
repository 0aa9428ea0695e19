#include "ffn/cover_reduction.hpp"

#include <algorithm>

#include "numerics/walk.hpp"

namespace samebits::ffn {

CoverReduction::CoverReduction(const PlanOptions& options, const numerics::AxisTree& tree,
                               const std::vector<std::int64_t>& cuts, Ranks& ranks, engine::Engine& engine,
                               Workspace& workspace, int lanes, std::int64_t most_rows)
    : ranks_(ranks),
      engine_(engine),
      slices_only_(options.layout.sequence_parallel),
      policy_(options.cover_exchange),
      one_shot_bytes_(options.one_shot_bytes),
      node_bytes_(options.contract.node == Precision::f32 ? 4 : 2),
      cols_(options.shape.hidden),
      send_bytes_(static_cast<std::size_t>(ranks.tp)),
      receive_bytes_(static_cast<std::size_t>(ranks.tp)) {
  std::vector<std::int64_t> ends;
  for (int rank = 0; rank < ranks.tp; ++rank) {
    const std::size_t before = ends.size();
    numerics::for_each_cover_node(tree, cuts[static_cast<std::size_t>(rank)],
                                  cuts[static_cast<std::size_t>(rank) + 1],
                                  [&](const numerics::WalkStep& node) { ends.push_back(node.end); });
    nodes_.push_back(static_cast<std::int64_t>(ends.size() - before));
    most_nodes_ = std::max(most_nodes_, nodes_.back());
  }
  all_nodes_ = static_cast<std::int64_t>(ends.size());
  numerics::for_each_finish_step(
      tree, all_nodes_, [&](std::int64_t i) { return ends[static_cast<std::size_t>(i)]; },
      [&](const numerics::WalkStep& node) { merges_.push_back(node.merges); });

  const std::int64_t slice_rows = even_slice(most_rows, ranks.tp, 0).length() + 1;
  // In one shot every rank receives all rows; chosen by bytes, those are few.
  std::int64_t one_shot_rows = policy_ == CoverExchange::one_shot ? most_rows : 0;
  if (policy_ == CoverExchange::automatic && !slices_only_) {
    one_shot_rows = static_cast<std::int64_t>(one_shot_bytes_ / node_bytes_) /
                    std::max<std::int64_t>(most_nodes_ * cols_, 1);
  }
  const std::int64_t receive_rows = std::max(slice_rows, std::min(one_shot_rows, most_rows));
  send_ = workspace.take(checked_bytes(most_rows, nodes_of(ranks.tp_rank) * cols_, node_bytes_));
  for (int lane = 0; lane < lanes; ++lane) {
    receive_.push_back(workspace.take(checked_bytes(receive_rows, all_nodes_ * cols_, node_bytes_)));
    finish_.emplace_back(static_cast<std::size_t>(all_nodes_));
  }
  if (!slices_only_) slice_ = workspace.matrix(slice_rows, cols_);
}

engine::CoverView CoverReduction::cover() const {
  const std::int64_t nodes = nodes_of(ranks_.tp_rank);
  return {send_, nodes, nodes * cols_, cols_};  // [row][node][col]: a slice of rows is one run of bytes
}

bool CoverReduction::one_shot(std::int64_t rows) const {
  if (policy_ != CoverExchange::automatic) return policy_ == CoverExchange::one_shot;
  return !slices_only_ &&
         static_cast<std::size_t>(rows * most_nodes_ * cols_) * node_bytes_ <= one_shot_bytes_;
}

void CoverReduction::exchange(int lane, std::int64_t rows, Queue queue) {
  const MemorySpace space = engine_.device().space;
  void* const receive = receive_[static_cast<std::size_t>(lane)];
  const auto row_bytes = [&](int rank) {
    return static_cast<std::size_t>(nodes_of(rank) * cols_) * node_bytes_;
  };
  const bool all_rows = one_shot(rows);
  const Interval mine = even_slice(rows, ranks_.tp, ranks_.tp_rank);
  for (int rank = 0; rank < ranks_.tp; ++rank) {
    const Interval theirs = even_slice(rows, ranks_.tp, rank);
    const auto at = static_cast<std::size_t>(rank);
    send_bytes_[at] = static_cast<std::size_t>(theirs.length()) * row_bytes(ranks_.tp_rank);
    receive_bytes_[at] = static_cast<std::size_t>(all_rows ? rows : mine.length()) * row_bytes(rank);
  }
  if (all_rows) {
    ranks_.tensor->all_gather(send_, receive, receive_bytes_, space, queue);
  } else {
    ranks_.tensor->all_to_all(send_, send_bytes_, receive, receive_bytes_, space, queue);
  }
  // Node n of rank r: its rows lie nodes(r) * cols apart.
  auto* from = static_cast<unsigned char*>(receive);
  std::size_t next = 0;
  for (int rank = 0; rank < ranks_.tp; ++rank) {
    const std::int64_t row_stride = nodes_of(rank) * cols_;
    const auto skipped =
        static_cast<std::size_t>(all_rows && slices_only_ ? mine.begin : 0) * row_bytes(rank);
    for (std::int64_t node = 0; node < nodes_of(rank); ++node, ++next) {
      const unsigned char* const data = from + skipped + static_cast<std::size_t>(node * cols_) * node_bytes_;
      finish_[static_cast<std::size_t>(lane)][next] = {data, row_stride, merges_[next]};
    }
    from += receive_bytes_[static_cast<std::size_t>(rank)];
  }
}

void CoverReduction::finish(int lanes, std::int64_t rows, const View& out, engine::Block& block,
                            Queue queue) {
  const std::span<const engine::FinishNode> gate = finish_[0];
  const std::span<const engine::FinishNode> up =
      lanes > 1 ? std::span<const engine::FinishNode>(finish_[1]) : std::span<const engine::FinishNode>{};
  if (slices_only_ || one_shot(rows)) {
    block.finish({gate, up, out}, queue);
    return;
  }
  const View slice = packed(slice_, even_slice(rows, ranks_.tp, ranks_.tp_rank).length(), cols_);
  block.finish({gate, up, slice}, queue);
  for (int rank = 0; rank < ranks_.tp; ++rank) {
    receive_bytes_[static_cast<std::size_t>(rank)] =
        static_cast<std::size_t>(even_slice(rows, ranks_.tp, rank).length() * cols_) * size_of(DType::bf16);
  }
  ranks_.tensor->all_gather(slice.data, out.data, receive_bytes_, engine_.device().space, queue);
}

}  // namespace samebits::ffn
