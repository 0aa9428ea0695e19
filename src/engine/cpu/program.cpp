#include "engine/cpu/program.hpp"

#include <algorithm>

#include "numerics/walk.hpp"
#include "samebits/error.hpp"

namespace samebits::engine::cpu {

void Program::reserve(const numerics::AxisTree& longest) {
  // Every leaf but an axis' last is at least half of the rule's length, less one granule; every piece is at
  // least 16 k or ends a leaf.
  const std::int64_t length = longest.length;
  const std::int64_t shortest =
      longest.rule.rule == Rule::halve
          ? std::max<std::int64_t>(length >> std::min<std::int64_t>(longest.rule.value, 40), longest.granule)
          : std::max(longest.rule.value / 2, longest.granule);
  const std::int64_t leaves = std::min(length, 2 * (length / std::max<std::int64_t>(shortest / 2, 1)) + 4);
  const std::int64_t chunks = length / (kChunk / 2) + 4;
  pieces_.reserve(static_cast<std::size_t>(leaves + chunks));
  chunks_.reserve(static_cast<std::size_t>(chunks));
}

std::size_t Program::bytes() const {
  return pieces_.capacity() * sizeof(Piece) + chunks_.capacity() * sizeof(Chunk);
}

// Positions of `leaf` are local ones.
void Program::add(const numerics::LeafPart& leaf, bool aligned_pieces) {
  for (std::int64_t at = leaf.begin; at < leaf.end;) {
    const bool full = chunks_.empty() ||
                      chunks_.back().k + std::min<std::int64_t>(16, leaf.end - at) > kChunk ||
                      (aligned_pieces && chunks_.back().k % 16 != 0);
    if (full) chunks_.push_back({at, 0, static_cast<int>(pieces_.size()), 0, nodes_});
    Chunk& chunk = chunks_.back();
    std::int64_t length = std::min<std::int64_t>(leaf.end - at, kChunk - chunk.k);
    if (at + length < leaf.end) length = length / 16 * 16;
    const bool closes = leaf.closes && at + length == leaf.end;
    pieces_.push_back({chunk.k, chunk.k + static_cast<int>(length), leaf.opens && at == leaf.begin, closes,
                       closes ? leaf.merges : 0});
    chunk.k += static_cast<int>(length);
    ++chunk.pieces;
    at += length;
  }
  if (!leaf.closes) return;
  highest_ = std::max(highest_, nodes_ + 1);
  nodes_ += 1 - leaf.merges;
}

void Program::build(const numerics::AxisTree& tree, std::span<const Interval> held, bool aligned_pieces,
                    bool open_ends) {
  pieces_.clear();
  chunks_.clear();
  nodes_ = 0;
  highest_ = 0;
  std::int64_t before = 0;  // local position of the interval
  for (const Interval& interval : held) {
    const numerics::Stretch stretch = numerics::stretch_of(tree, interval.begin, interval.end);
    const bool first = &interval == &held.front(), last = &interval == &held.back();
    if ((stretch.resumes && !(open_ends && first)) || (stretch.stays_open && !(open_ends && last)))
      throw Error(ErrorCode::internal, "a shard of an axis cuts inside a leaf");
    numerics::for_each_leaf_part(tree, stretch, [&](numerics::LeafPart leaf) {
      leaf.begin += before - interval.begin;
      leaf.end += before - interval.begin;
      add(leaf, aligned_pieces);
    });
    before += interval.length();
  }
}

}  // namespace samebits::engine::cpu
