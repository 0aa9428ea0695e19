#include "ffn/rank/weight_cuts.hpp"

#include <fmt/format.h>

#include <string>

#include "layout/cuts.hpp"
#include "numerics/walk.hpp"
#include "samebits/error.hpp"

namespace samebits::ffn {
namespace {

DownCut choose_down(const PlanOptions& o, const numerics::AxisTree& intermediate, bool between_leaves) {
  if (o.down == DownCut::rows) return o.layout.tp > 1 ? DownCut::rows : DownCut::columns;
  if (between_leaves) return DownCut::columns;
  if (o.down == DownCut::automatic) return DownCut::rows;
  const std::int64_t leaves = numerics::count_leaves(intermediate);
  const std::string ways = leaves == 1 ? "no tp above 1 cuts between leaves: cut down by rows"
                                       : fmt::format("tp {} cut between leaves, or cut down by rows",
                                                     layout::legal_degrees(intermediate));
  throw Error(
      ErrorCode::refused,
      fmt::format("down cut by columns over tp{}: the contract's tree of I={} has {} {}, so a cut would "
                  "fall inside one; {}",
                  o.layout.tp, o.shape.intermediate, leaves, leaves == 1 ? "leaf" : "leaves", ways));
}

}  // namespace

WeightCuts choose_weight_cuts(const PlanOptions& o, const numerics::AxisTree& intermediate) {
  const int tp = o.layout.tp;
  WeightCuts cuts;
  cuts.intermediate = layout::leaf_cuts(intermediate, tp);
  cuts.down = choose_down(o, intermediate, !cuts.intermediate.empty());
  if (cuts.by_rows()) cuts.intermediate = layout::even_cuts(o.shape.intermediate, tp);
  cuts.hidden = layout::even_cuts(o.shape.hidden, tp);
  cuts.both =
      o.weights == WeightCut::both || (o.weights == WeightCut::automatic && cuts.by_rows() && o.backward);
  if (cuts.by_rows() && o.backward && !cuts.both) {
    throw Error(ErrorCode::refused,
                fmt::format("backward over tp{} with down cut by rows reads gate and up by columns too: hold "
                            "the weights cut both ways (weights both), or cut down by columns",
                            tp));
  }
  return cuts;
}

}  // namespace samebits::ffn
