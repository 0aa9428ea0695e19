// The stages of the block on the CPU.
#pragma once

#include <memory>
#include <vector>

#include "engine/cpu/contraction.hpp"
#include "engine/engine.hpp"

namespace samebits::engine::cpu {

class CpuBlock final : public Block {
 public:
  CpuBlock(const Problem& problem, const KernelTable& kernels, std::shared_ptr<ThreadPool> pool);

  void gate_up(const GateUp& stage, Queue) override;
  void down(const Down& stage, Queue) override;
  void d_act(const DAct& stage, Queue) override;
  void d_hidden(const DHidden& stage, Queue) override;
  void d_hidden_lane(const DHiddenLane& stage, Queue) override;
  void d_weight(const DWeight& stage, Queue) override;
  void finish(const Finish& stage, Queue) override;
  std::size_t workspace_bytes() const override;

 private:
  void build(const numerics::AxisTree& tree, std::span<const Interval> held, bool open_ends = false);
  void contract_rows(const Source& rows, std::int64_t row_count, const Source& lanes, std::int64_t lane_count,
                     const Target& target, const OpenLeaf& open = {});
  Target target_of(const Sink& sink) const;
  Target target_of(const CoverView& cover) const;

  Problem problem_;
  const KernelTable& kernels_;
  std::shared_ptr<ThreadPool> pool_;
  std::vector<Scratch> scratch_;
  Program program_;
  std::size_t lane_root_count_ = 0;
  std::unique_ptr<float[]> lane_roots_;  // [tokens of a step, 2, H]: both lanes of dX before they are added
};

}  // namespace samebits::engine::cpu
