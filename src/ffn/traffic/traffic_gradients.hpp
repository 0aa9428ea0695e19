// What weight gradients move between context ranks, for one of them.
#pragma once

#include <string>
#include <vector>

#include "ffn/context/gradient_sizes.hpp"
#include "ffn/rank/ranks.hpp"
#include "ffn/traffic/traffic_parts.hpp"

namespace samebits::ffn {

class GradientTraffic {
 public:
  // `held`: rows of gate and up that the rank holds; `gradient_bytes` of an element.
  GradientTraffic(const PlanOptions& options, const TokenShards& shards, int cp_rank, std::int64_t held,
                  std::size_t gradient_bytes);

  bool gathers() const { return gathers_; }

  // Tokens of an operand, from every context rank to all; none where covers are exchanged.
  std::vector<Collective> operand(const std::string& what, std::int64_t cols) const;

  // A gradient of rows x cols, block by block: covers to the rank that finishes a slice, slices to all.
  std::vector<Collective> gradient(const std::string& what, std::int64_t rows, std::int64_t cols) const;

 private:
  void count_covers(const numerics::AxisTree& tree);
  CoverCounts counts() const;
  std::vector<Collective> context_gather(const std::string& what, const Bytes& of_rank) const;
  std::int64_t slice_of(std::int64_t rows, int rank) const;
  std::vector<Collective> cover_exchange(const std::string& what, std::int64_t rows, std::int64_t cols) const;

  const TokenShards& shards_;
  int cp_, me_;
  int per_node_;  // context ranks on a machine; 1: one level
  std::size_t gradient_bytes_;
  GradientSizes sizes_;
  bool gathers_ = true;
  std::vector<std::int64_t> of_rank_, of_machine_;  // nodes of covers

  int machines() const { return cp_ / per_node_; }
  bool two_levels() const { return per_node_ > 1; }
};

}  // namespace samebits::ffn
