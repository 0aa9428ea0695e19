// A contraction over (part of) an axis as the CPU runs it: leaves cut into pieces, pieces gathered in chunks
// whose operands are prepared together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cpu/kernels.hpp"
#include "numerics/walk.hpp"
#include "samebits/layout.hpp"

namespace samebits::engine::cpu {

struct Chunk {
  std::int64_t begin = 0;  // local k: the operands hold the intervals one behind the other
  int k = 0;
  int first_piece = 0;
  int pieces = 0;
  int height = 0;  // nodes on the stack before it
};

class Program {
 public:
  // Room for any part of an axis of this tree's rule and granule, up to its length.
  void reserve(const numerics::AxisTree& longest);

  // The covers of `held`, one behind the other. Throws Error(internal) when an interval cuts inside a leaf;
  // `open_ends`: the first may begin inside one and the last end there.
  void build(const numerics::AxisTree& tree, std::span<const Interval> held, bool aligned_pieces,
             bool open_ends = false);

  const std::vector<Chunk>& chunks() const { return chunks_; }
  const Piece* pieces(const Chunk& chunk) const { return pieces_.data() + chunk.first_piece; }
  int nodes() const { return nodes_; }  // left on the stack at the end
  bool resumes() const { return !pieces_.empty() && !pieces_.front().opens; }
  bool stays_open() const { return !pieces_.empty() && !pieces_.back().closes; }
  int levels() const { return highest_ + 1; }  // of a tile's state
  std::size_t bytes() const;

 private:
  void add(const numerics::LeafPart& leaf, bool aligned_pieces);

  std::vector<Piece> pieces_;
  std::vector<Chunk> chunks_;
  int nodes_ = 0;
  int highest_ = 0;
};

}  // namespace samebits::engine::cpu
