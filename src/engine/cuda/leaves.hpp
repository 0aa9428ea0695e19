// A contraction over (part of) an axis as kernels run it: its leaves in order, and after each the merges of
// the stack of pending nodes. Made on the host for every call (a few words for the contracts that are fast
// here), it travels as a kernel parameter, so that nothing is copied and a captured graph owns it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cuda/namespace.hpp"
#include "numerics/hd.hpp"
#include "numerics/tree.hpp"
#include "samebits/layout.hpp"

namespace samebits::engine::SAMEBITS_GPU {

// One leaf in 32 bits: its length in k, whether the node on top after its merges is one of the cover's (it
// leaves the stack), and how many merges there are.
struct LeafStep {
  std::uint32_t word = 0;
  SAMEBITS_HD constexpr int length() const { return static_cast<int>(word >> 7); }
  SAMEBITS_HD constexpr bool emits() const { return ((word >> 6) & 1u) != 0; }
  SAMEBITS_HD constexpr int merges() const { return static_cast<int>(word & 63u); }
};

template <int Most>
struct LeafList {
  static constexpr int kMost = Most;
  int count = 0;
  LeafStep step[Most];
};
using ShortLeafList = LeafList<62>;   // 252 bytes
using LongLeafList = LeafList<7800>;  // what a kernel's parameters can hold

class Leaves {
 public:
  // Room for any part of an axis of this tree's rule and granule, up to its length. Throws Error(refused) for
  // more leaves than a kernel can be told.
  void reserve(const numerics::AxisTree& longest);

  // The covers of `held`, one behind the other. Allocates nothing. `open_ends`: the first leaf may have begun
  // before, and the last may go on behind (its step merges nothing and makes no node).
  void build(const numerics::AxisTree& tree, std::span<const Interval> held, bool open_ends = false);

  int count() const { return static_cast<int>(steps_.size()); }
  int nodes() const { return nodes_; }    // of the cover
  int levels() const { return levels_; }  // most nodes that are pending at once, beside the one just made
  bool resumes() const { return resumes_; }
  bool stays_open() const { return stays_open_; }
  std::span<const LeafStep> steps() const { return steps_; }
  bool fits_short() const { return count() <= ShortLeafList::kMost; }

  template <class List>
  List list() const {
    List out;
    out.count = count();
    for (int i = 0; i < out.count; ++i) out.step[i] = steps_[static_cast<std::size_t>(i)];
    return out;
  }

 private:
  std::vector<LeafStep> steps_;
  std::vector<std::size_t> stack_;  // of the leaf that made each pending node, while building
  int nodes_ = 0;
  int levels_ = 0;
  bool resumes_ = false, stays_open_ = false;
};

}  // namespace samebits::engine::SAMEBITS_GPU
