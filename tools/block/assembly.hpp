// The tensors of all ranks of a layout, put together in this process and compared with exact slices.
#pragma once

#include <mutex>

#include "block/layout_run.hpp"
#include "block/result_sink.hpp"

namespace samebits::tools {

// Ranks may hand in from threads of their own.
class Assembly final : public ResultSink {
 public:
  // `out` receives token tensors from the ranks that own their rows and gradients from context rank 0.
  Assembly(const LayoutRun& run, const TokenShards& shards, BlockTensors& out);

  View place(int rank, BlockTensor which, const Interval& intermediate) override;
  void take(const RankTensor& made) override;

  // Once every rank has handed in; without the seconds.
  const LayoutOutcome& outcome() const { return outcome_; }

 private:
  void take_tokens(const RankTensor& made);
  void take_gradient(const RankTensor& made);
  void compare(BlockTensor which, const ConstView& mine, const ConstView& exact);

  const LayoutRun& run_;
  const TokenShards& shards_;
  BlockTensors& out_;
  std::mutex mutex_;  // of the outcome; what ranks write in `out` lies apart
  LayoutOutcome outcome_;
};

}  // namespace samebits::tools
