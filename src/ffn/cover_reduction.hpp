// An all-reduce in the contract's tree: ranks exchange covers of a [rows, cols] result, and whoever holds all
// of them finishes the tree. One shot (everybody receives everything) or slice-owner (a rank finishes its
// slice of the rows, then slices are gathered): the same bits, other bytes.
#pragma once

#include <span>
#include <vector>

#include "engine/engine.hpp"
#include "ffn/ranks.hpp"
#include "ffn/workspace.hpp"

namespace samebits::ffn {

class CoverReduction {
 public:
  // `cuts`: boundaries of I between tensor ranks. `lanes`: 1 for y, 2 for dX.
  CoverReduction(const PlanOptions& options, const numerics::AxisTree& tree,
                 const std::vector<std::int64_t>& cuts, Ranks& ranks, engine::Engine& engine,
                 Workspace& workspace, int lanes, std::int64_t most_rows);

  // Where this rank's stage leaves its cover of `rows` rows.
  engine::CoverView cover() const;

  // Sends the cover to the others; what arrives is lane `lane`. After it the next lane may overwrite cover().
  void exchange(int lane, std::int64_t rows, Queue queue);

  // From one lane (y) or both (dX) to the tensor: all `rows` of it, or under sequence parallelism this rank's
  // slice. `out` is packed.
  void finish(int lanes, std::int64_t rows, const View& out, engine::Block& block, Queue queue);

 private:
  bool one_shot(std::int64_t rows) const;
  std::int64_t nodes_of(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }

  Ranks& ranks_;
  engine::Engine& engine_;
  bool slices_only_;  // sequence parallelism
  CoverExchange policy_;
  std::size_t one_shot_bytes_;
  std::size_t node_bytes_;
  std::int64_t cols_;
  std::vector<std::int64_t> nodes_;  // of each tensor rank's cover
  std::vector<int> merges_;          // after each of them all, in order
  std::int64_t most_nodes_ = 0, all_nodes_ = 0;
  void* send_ = nullptr;
  std::vector<void*> receive_;  // of each lane
  View slice_{};                // finished rows of this rank before they are gathered
  std::vector<std::vector<engine::FinishNode>> finish_;  // of each lane
  std::vector<std::size_t> send_bytes_, receive_bytes_;
};

}  // namespace samebits::ffn
