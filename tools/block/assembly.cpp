#include "block/assembly.hpp"

#include "block/rank_tokens.hpp"

namespace samebits::tools {
namespace {

// The shard of a whole gradient: rows of gate and up, columns of down.
template <class AnyView>
AnyView shard_of(const AnyView& whole, BlockTensor which, const Interval& intermediate) {
  return which == kDownGradient ? whole.slice_cols(intermediate.begin, intermediate.end)
                                : whole.slice_rows(intermediate.begin, intermediate.end);
}

}  // namespace

Assembly::Assembly(const LayoutRun& run, const TokenShards& shards, BlockTensors& out)
    : run_(run), shards_(shards), out_(out) {
  out.poison();  // what an earlier layout left there would hide an element that this one forgets
}

View Assembly::place(int rank, BlockTensor which, const Interval& intermediate) {
  if (rank >= run_.layout.tp) return {};  // not of context rank 0: a replica
  return shard_of(out_.view(which), which, intermediate);
}

void Assembly::take(const RankTensor& made) {
  if (made.which < kGateGradient) {
    take_tokens(made);
  } else {
    take_gradient(made);
  }
}

void Assembly::take_tokens(const RankTensor& made) {
  const bool owner = made.rank % run_.layout.tp == 0 || run_.layout.sequence_parallel;
  for_each_local(
      tokens_of_rank(shards_, run_.layout, made.rank), [&](const Interval& interval, const Interval& rows) {
        const ConstView mine = made.tensor.slice_rows(rows.begin, rows.end);
        if (owner) copy_rows(out_.view(made.which).slice_rows(interval.begin, interval.end), mine);
        if (run_.exact == nullptr) return;
        // Training and inference must agree too: both are held against the inference output.
        const BlockTensor against = made.which == kTrainingOutput ? kOutput : made.which;
        compare(made.which, mine, run_.exact->view(against).slice_rows(interval.begin, interval.end));
      });
}

void Assembly::take_gradient(const RankTensor& made) {
  const View kept = place(made.rank, made.which, made.intermediate);
  if (kept.data != nullptr && kept.data != made.tensor.data) copy_rows(kept, made.tensor);
  if (run_.exact == nullptr) return;
  compare(made.which, made.tensor, shard_of(run_.exact->view(made.which), made.which, made.intermediate));
}

void Assembly::compare(BlockTensor which, const ConstView& mine, const ConstView& exact) {
  const std::int64_t differing = count_differing(mine, exact);
  const std::lock_guard lock(mutex_);
  outcome_.differing[which] += differing;
  outcome_.compared[which] += mine.elements();
}

}  // namespace samebits::tools
