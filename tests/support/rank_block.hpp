// The block on one rank of a layout, seeded, and a check of the collectives: what the
// tests of transports between processes run over them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "samebits/layout.hpp"
#include "samebits/plan.hpp"
#include "samebits/transport.hpp"

namespace samebits::test {

// The block on the transport's rank; inputs are the same in every process. One thread computes.
class RankBlock {
 public:
  RankBlock(const Layout& layout, std::shared_ptr<Transport> transport);
  RankBlock(const RankBlock&) = delete;  // the calls' arguments point into it
  RankBlock& operator=(const RankBlock&) = delete;

  void forward() { plan_.forward(forward_); }
  void backward() { plan_.backward(backward_); }

  // y, dX and the weight gradients, one behind the other.
  const std::vector<std::uint16_t>& results() const { return results_; }

 private:
  Plan plan_;
  TokenShards shards_;
  std::vector<std::uint16_t> x_, dy_, gate_, up_, down_;
  std::vector<std::uint16_t> results_;
  ForwardArgs forward_;
  BackwardArgs backward_;
};

// What one forward and one backward leave.
std::vector<std::uint16_t> rank_results(const Layout& layout, std::shared_ptr<Transport> transport);

// The same of every rank, over local_transports.
std::vector<std::vector<std::uint16_t>> local_results(const Layout& layout);

// Uneven, even, one-sided and empty messages of every rank to every rank, up to `most` bytes, each byte
// checked; throws Error(internal) where another came.
void check_collectives(Transport& transport, std::size_t round, std::size_t most);

}  // namespace samebits::test
