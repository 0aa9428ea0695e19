// Tensor ranks hold column blocks of a [rows, whole] matrix; each comes to hold all columns: of all rows, or
// of its slice of the rows (sequence parallelism).
#pragma once

#include <vector>

#include "engine/engine.hpp"
#include "ffn/rank/exchange_lane.hpp"
#include "ffn/rank/ranks.hpp"
#include "ffn/rank/workspace.hpp"

namespace samebits::ffn {

class ColumnGather {
 public:
  // `cuts`: tp + 1 boundaries of the columns.
  ColumnGather(std::vector<std::int64_t> cuts, Ranks& ranks, engine::Engine& engine, Workspace& workspace,
               ExchangeLane& exchanges, std::int64_t most_rows);

  // `block` is packed, [rows, this rank's columns]; `out` is [rows, whole], there when the ticket is waited
  // for.
  ExchangeLane::Ticket all_rows(const ConstView& block, const View& out, Queue queue);
  // `out` is [this rank's slice of the rows, whole].
  ExchangeLane::Ticket own_rows(const ConstView& block, const View& out, Queue queue);

 private:
  std::int64_t width(int rank) const {
    return cuts_[static_cast<std::size_t>(rank) + 1] - cuts_[static_cast<std::size_t>(rank)];
  }
  void move_all_rows(const ConstView& block, const View& out, Queue queue);
  void move_own_rows(const ConstView& block, const View& out, Queue queue);
  void place(std::int64_t rows, const View& out, Queue queue);

  std::vector<std::int64_t> cuts_;
  Ranks& ranks_;
  engine::Engine& engine_;
  ExchangeLane& exchanges_;
  View staging_{};                                       // the blocks as they arrive, one behind the other
  std::vector<std::size_t> send_bytes_, receive_bytes_;  // of the exchange that runs
};

}  // namespace samebits::ffn
