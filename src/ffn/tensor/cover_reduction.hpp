// An all-reduce in the contract's tree: ranks exchange covers of a [rows, cols] result, and whoever holds all
// of them finishes the tree. One shot (everybody receives everything) or slice-owner (a rank finishes its
// slice of the rows, then slices are gathered): the same bits, other bytes. Where exchanges overlap, a result
// of many rows goes in chunks of them.
//
// Where ranks reach each other's memory, slice-owners open what they receive in as windows: stages leave
// their covers there, and all that is exchanged before the finish is word that they are complete.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "engine/engine.hpp"
#include "ffn/rank/exchange_lane.hpp"
#include "ffn/rank/ranks.hpp"
#include "ffn/rank/workspace.hpp"

namespace samebits::ffn {

class CoverReduction {
 public:
  // `cuts`: boundaries of I between tensor ranks. `lanes`: the most that a result has, 1 for y, 2 for dX.
  CoverReduction(const PlanOptions& options, const numerics::AxisTree& tree,
                 const std::vector<std::int64_t>& cuts, Ranks& ranks, engine::Engine& engine,
                 Workspace& workspace, ExchangeLane& exchanges, int lanes, std::int64_t most_rows);

  bool writes_to_others() const { return !windows_.empty(); }

  // Begins a result of so many lanes and rows. Says how many of the rows each of its chunks has but the last.
  std::int64_t begin(int lanes, std::int64_t rows);

  // For each chunk and, in it, each lane: where the stage leaves its cover, then the exchange of it.
  engine::CoverView cover(Queue queue);
  void exchange(std::int64_t rows, Queue queue);

  // The oldest chunk that is not finished, of which all lanes are on their way: all its rows, or under
  // sequence parallelism this rank's slice. `out` is packed; it and all chunks before are there when the
  // ticket is waited for. At most the first lane of the next chunk may be on its way too.
  ExchangeLane::Ticket finish(std::int64_t rows, const View& out, engine::Block& block, Queue queue);

 private:
  void open_windows(Workspace& workspace, int lanes, std::int64_t slice_rows);
  engine::CoverView cover_in_windows();
  bool one_shot(std::int64_t rows) const;
  std::int64_t nodes_of(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }
  std::size_t row_bytes(int rank) const {
    return static_cast<std::size_t>(nodes_of(rank) * cols_) * node_bytes_;
  }
  Interval my_slice(std::int64_t rows) const { return even_slice(rows, ranks_.tp, ranks_.tp_rank); }
  void* receive_buffer(std::int64_t chunk, int lane) const;
  void move_covers(const void* send, void* receive, std::int64_t rows, Queue queue);
  void list_nodes(std::int64_t chunk, int lane, std::int64_t rows);

  Ranks& ranks_;
  engine::Engine& engine_;
  ExchangeLane& exchanges_;
  bool slices_only_;  // sequence parallelism
  CoverExchange policy_;
  std::size_t one_shot_bytes_;
  std::size_t node_bytes_;
  ChunkRule chunks_;
  bool chunked_;  // results may have more than one chunk
  std::int64_t cols_;
  std::vector<std::int64_t> nodes_;  // of each tensor rank's cover
  std::vector<int> merges_;          // after each of them all, in order
  std::int64_t most_nodes_ = 0, all_nodes_ = 0;

  // Buffers for a chunk. Overlapping, a cover is sent while the next one is made; and the first lane of the
  // next chunk arrives before this chunk is finished.
  std::vector<void*> send_;
  std::vector<std::vector<void*>> receive_;  // of each lane
  std::vector<View> slices_;                 // finished rows of this rank before they are gathered
  std::vector<std::vector<engine::FinishNode>> finish_;  // of each lane

  // Of each lane; none: covers are exchanged. What a rank writes there has room, because since the result
  // before, this rank has heard from it: in the gather of slices, or in that of the tokens.
  std::vector<std::shared_ptr<Window>> windows_;
  std::vector<std::vector<engine::CoverSlice>> window_slices_;
  void* word_ = nullptr;   // kWordBytes of every tensor rank
  bool windowed_ = false;  // the result at hand
  std::int64_t rows_ = 0;  // of it

  // Of the result at hand: exchanges that were put, chunks that were finished.
  int lanes_ = 1;
  std::int64_t put_ = 0, finished_ = 0;
  static constexpr std::size_t kOnTheirWay = 4;              // more than ever are
  std::array<ExchangeLane::Ticket, kOnTheirWay> tickets_{};  // of exchange n at n % kOnTheirWay
  ExchangeLane::Ticket last_gather_{};

  std::vector<std::size_t> send_bytes_, receive_bytes_;  // of the exchange that runs
};

}  // namespace samebits::ffn
