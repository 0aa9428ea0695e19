#include "ffn/tensor/cover_reduction.hpp"

#include <algorithm>

#include "ffn/tensor/chunks.hpp"
#include "numerics/walk.hpp"

namespace samebits::ffn {
namespace {

constexpr std::size_t kWordBytes = 16;
constexpr std::size_t kWindowGranule = std::size_t{2} << 20;  // so that it shares its pages with nothing else

}  // namespace

CoverReduction::CoverReduction(const PlanOptions& options, const numerics::AxisTree& tree,
                               const std::vector<std::int64_t>& cuts, Ranks& ranks, engine::Engine& engine,
                               Workspace& workspace, ExchangeLane& exchanges, int lanes,
                               std::int64_t most_rows)
    : ranks_(ranks),
      engine_(engine),
      exchanges_(exchanges),
      slices_only_(options.layout.sequence_parallel),
      policy_(options.cover_exchange),
      one_shot_bytes_(options.one_shot_bytes),
      node_bytes_(size_of(engine::node_dtype(options.contract))),
      chunks_(options.chunks),
      chunked_(exchanges.beside() && !slices_only_),
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

  if (policy_ != CoverExchange::one_shot && ranks.tp <= engine::kMostSlices)
    open_windows(workspace, lanes, even_slice(most_rows, ranks.tp, 0).length() + 1);
  chunked_ = chunked_ && windows_.empty();
  const std::int64_t most = chunked_ ? longest_chunk(chunks_, most_rows) : most_rows;
  chunked_ = chunked_ && most < most_rows;
  const std::int64_t slice_rows = even_slice(most, ranks.tp, 0).length() + 1;
  // In one shot every rank receives all rows; chosen by bytes, those are few.
  std::int64_t one_shot_rows = policy_ == CoverExchange::one_shot ? most : 0;
  if (policy_ == CoverExchange::automatic && !slices_only_) {
    one_shot_rows = static_cast<std::int64_t>(one_shot_bytes_ / node_bytes_) /
                    std::max<std::int64_t>(most_nodes_ * cols_, 1);
  }
  one_shot_rows = std::min(one_shot_rows, most);
  const std::int64_t receive_rows = windows_.empty() ? std::max(slice_rows, one_shot_rows) : one_shot_rows;
  const std::int64_t send_rows = windows_.empty() ? most : one_shot_rows;
  const int sends = chunked_ || (exchanges.beside() && lanes > 1) ? 2 : 1;
  for (int i = 0; i < sends; ++i)
    send_.push_back(workspace.take(checked_bytes(send_rows, nodes_of(ranks.tp_rank) * cols_, node_bytes_)));
  for (int lane = 0; lane < lanes; ++lane) {
    receive_.emplace_back();
    for (int i = 0; i < (chunked_ && lane == 0 ? 2 : 1); ++i)
      receive_.back().push_back(workspace.take(checked_bytes(receive_rows, all_nodes_ * cols_, node_bytes_)));
    finish_.emplace_back(static_cast<std::size_t>(all_nodes_));
  }
  for (int i = 0; i < (chunked_ ? 2 : 1) && !slices_only_; ++i)
    slices_.push_back(workspace.matrix(slice_rows, cols_));
}

void CoverReduction::open_windows(Workspace& workspace, int lanes, std::int64_t slice_rows) {
  const std::size_t bytes = checked_bytes(slice_rows, all_nodes_ * cols_, node_bytes_);
  const std::size_t granules = (bytes / kWindowGranule + 1) * kWindowGranule;
  for (int lane = 0; lane < lanes; ++lane) {
    const std::shared_ptr<Window> window =
        ranks_.tensor->open_window(workspace.share(granules), engine_.device().space);
    if (!window) return windows_.clear();
    windows_.push_back(window);
    window_slices_.emplace_back(static_cast<std::size_t>(ranks_.tp));
  }
  workspace.count(granules * static_cast<std::size_t>(lanes));
  word_ = workspace.take(kWordBytes * static_cast<std::size_t>(ranks_.tp));
}

// On rank r its slice of the rows from each sender, one behind the other.
engine::CoverView CoverReduction::cover_in_windows() {
  const auto lane = static_cast<std::size_t>(put_ % lanes_);
  std::size_t before = 0;  // bytes of a row that ranks before this one send
  for (int rank = 0; rank < ranks_.tp_rank; ++rank) before += row_bytes(rank);
  std::vector<engine::CoverSlice>& slices = window_slices_[lane];
  for (int rank = 0; rank < ranks_.tp; ++rank) {
    const Interval rows = even_slice(rows_, ranks_.tp, rank);
    slices[static_cast<std::size_t>(rank)] = {rows.end,
                                              static_cast<unsigned char*>(windows_[lane]->of(rank)) +
                                                  static_cast<std::size_t>(rows.length()) * before};
  }
  const std::int64_t nodes = nodes_of(ranks_.tp_rank);
  return {nullptr, nodes, nodes * cols_, cols_, slices};
}

std::int64_t CoverReduction::begin(int lanes, std::int64_t rows) {
  rows_ = rows;
  windowed_ = !windows_.empty() && !one_shot(rows);
  lanes_ = lanes;
  put_ = finished_ = 0;
  tickets_ = {};
  last_gather_ = {};
  return chunked_ ? chunk_rows(chunks_, rows) : rows;
}

engine::CoverView CoverReduction::cover(Queue queue) {
  if (windowed_) return cover_in_windows();
  const auto sends = static_cast<std::int64_t>(send_.size());
  if (put_ >= sends) exchanges_.wait(tickets_[static_cast<std::size_t>(put_ - sends) % kOnTheirWay], queue);
  const std::int64_t nodes = nodes_of(ranks_.tp_rank);
  // [row][node][col]: a slice of rows is one run of bytes.
  return {send_[static_cast<std::size_t>(put_ % sends)], nodes, nodes * cols_, cols_};
}

bool CoverReduction::one_shot(std::int64_t rows) const {
  if (policy_ != CoverExchange::automatic) return policy_ == CoverExchange::one_shot;
  return !slices_only_ &&
         static_cast<std::size_t>(rows * most_nodes_ * cols_) * node_bytes_ <= one_shot_bytes_;
}

void* CoverReduction::receive_buffer(std::int64_t chunk, int lane) const {
  if (windowed_) return windows_[static_cast<std::size_t>(lane)]->of(ranks_.tp_rank);
  const std::vector<void*>& buffers = receive_[static_cast<std::size_t>(lane)];
  return buffers[static_cast<std::size_t>(chunk) % buffers.size()];
}

void CoverReduction::exchange(std::int64_t rows, Queue queue) {
  if (windowed_) {  // they lie where they belong; with the last lane's all is said
    if (++put_ < lanes_) return;
    tickets_[static_cast<std::size_t>(put_ - 1) % kOnTheirWay] = exchanges_.put(
        [this](Queue on) {
          std::fill(receive_bytes_.begin(), receive_bytes_.end(), kWordBytes);
          const auto mine = static_cast<std::size_t>(ranks_.tp_rank) * kWordBytes;
          ranks_.tensor->all_gather(static_cast<unsigned char*>(word_) + mine, word_, receive_bytes_,
                                    engine_.device().space, on);
        },
        queue);
    return;
  }
  const void* const send = send_[static_cast<std::size_t>(put_) % send_.size()];
  void* const receive = receive_buffer(put_ / lanes_, static_cast<int>(put_ % lanes_));
  tickets_[static_cast<std::size_t>(put_) % kOnTheirWay] =
      exchanges_.put([this, send, receive, rows](Queue on) { move_covers(send, receive, rows, on); }, queue);
  ++put_;
}

void CoverReduction::move_covers(const void* send, void* receive, std::int64_t rows, Queue queue) {
  const MemorySpace space = engine_.device().space;
  const bool all_rows = one_shot(rows);
  for (int rank = 0; rank < ranks_.tp; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    send_bytes_[at] =
        static_cast<std::size_t>(even_slice(rows, ranks_.tp, rank).length()) * row_bytes(ranks_.tp_rank);
    receive_bytes_[at] =
        static_cast<std::size_t>(all_rows ? rows : my_slice(rows).length()) * row_bytes(rank);
  }
  if (all_rows) {
    ranks_.tensor->all_gather(send, receive, receive_bytes_, space, queue);
  } else {
    ranks_.tensor->all_to_all(send, send_bytes_, receive, receive_bytes_, space, queue);
  }
}

// Node n of rank r: its rows lie nodes(r) * cols apart.
void CoverReduction::list_nodes(std::int64_t chunk, int lane, std::int64_t rows) {
  const bool all_rows = one_shot(rows);
  const Interval mine = my_slice(rows);
  const auto* from = static_cast<const unsigned char*>(receive_buffer(chunk, lane));
  std::size_t next = 0;
  for (int rank = 0; rank < ranks_.tp; ++rank) {
    const std::int64_t row_stride = nodes_of(rank) * cols_;
    const auto skipped =
        static_cast<std::size_t>(all_rows && slices_only_ ? mine.begin : 0) * row_bytes(rank);
    for (std::int64_t node = 0; node < nodes_of(rank); ++node, ++next) {
      const unsigned char* const data = from + skipped + static_cast<std::size_t>(node * cols_) * node_bytes_;
      finish_[static_cast<std::size_t>(lane)][next] = {data, row_stride, merges_[next]};
    }
    from += static_cast<std::size_t>(all_rows ? rows : mine.length()) * row_bytes(rank);
  }
}

ExchangeLane::Ticket CoverReduction::finish(std::int64_t rows, const View& out, engine::Block& block,
                                            Queue queue) {
  const std::int64_t chunk = finished_++;
  for (int lane = 0; lane < lanes_; ++lane) list_nodes(chunk, lane, rows);
  const std::span<const engine::FinishNode> gate = finish_[0];
  const std::span<const engine::FinishNode> up =
      lanes_ > 1 ? std::span<const engine::FinishNode>(finish_[1]) : std::span<const engine::FinishNode>{};
  exchanges_.wait(tickets_[static_cast<std::size_t>((chunk + 1) * lanes_ - 1) % kOnTheirWay], queue);
  if (slices_only_ || one_shot(rows)) {
    block.finish({gate, up, out}, queue);
    return last_gather_;
  }
  // What was gathered from there left before the covers that have just been waited for.
  const View slice =
      packed(slices_[static_cast<std::size_t>(chunk) % slices_.size()], my_slice(rows).length(), cols_);
  block.finish({gate, up, slice}, queue);
  last_gather_ = exchanges_.put(
      [this, rows, from = slice.data, to = out.data](Queue on) {
        for (int rank = 0; rank < ranks_.tp; ++rank) {
          receive_bytes_[static_cast<std::size_t>(rank)] =
              static_cast<std::size_t>(even_slice(rows, ranks_.tp, rank).length() * cols_) *
              size_of(DType::bf16);
        }
        ranks_.tensor->all_gather(from, to, receive_bytes_, engine_.device().space, on);
      },
      queue);
  return last_gather_;
}

}  // namespace samebits::ffn
