// One rank of a layout: its plans, its calls, and what it made of them, handed in.
#pragma once

#include <memory>
#include <vector>

#include "block/layout_run.hpp"
#include "block/result_sink.hpp"
#include "block/staging.hpp"
#include "samebits/plan.hpp"
#include "samebits/transport.hpp"

namespace samebits::tools {

class RankRun {
 public:
  // `block`: the weights where the engine reads them, the tokens on the host.
  RankRun(const Compute& compute, const BlockCase& block, const LayoutRun& run, const TokenShards& shards,
          int rank, std::shared_ptr<Transport> transport);

  // Throws LayoutRefused, on every rank of the layout, where a plan or a call is not allowed.
  void go(ResultSink& sink);

 private:
  Plan make_plan(bool with_backward) const;
  void require_ranks() const;
  void forward(Plan& plan, const ConstView& x, HostTensor& y);
  // `dx` is scratch for the rank's rows of dx.
  void backward(Plan& plan, const ConstView& x, const HostTensor& dy, HostTensor& dx, ResultSink& sink);

  const Compute& compute_;
  const BlockCase& block_;
  const LayoutRun& run_;
  const TokenShards& shards_;
  int rank_;
  std::vector<Interval> tokens_;
  std::shared_ptr<Transport> transport_;
  std::shared_ptr<engine::Engine> engine_;
  Staging staging_;
};

}  // namespace samebits::tools
