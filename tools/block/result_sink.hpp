// Where the ranks of a layout hand in what they made.
#pragma once

#include "block/tensors.hpp"
#include "samebits/layout.hpp"
#include "samebits/view.hpp"

namespace samebits::tools {

// A finished tensor of one rank, on the host.
struct RankTensor {
  int rank = 0;  // of the layout
  BlockTensor which = kOutput;
  Interval intermediate;  // of a gradient: which rows of gate and up, which columns of down
  ConstView tensor;       // [the rank's tokens, H], or its shard of a gradient
};

class ResultSink {
 public:
  virtual ~ResultSink() = default;

  // Where the rank should make this gradient, so that no copy of it is needed; empty: where it likes.
  virtual View place(int rank, BlockTensor which, const Interval& intermediate) = 0;

  // Every rank hands in the same tensors in the same order. The tensor may go away afterwards.
  virtual void take(const RankTensor& made) = 0;
};

}  // namespace samebits::tools
