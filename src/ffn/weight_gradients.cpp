// Which of a call's tokens count for weight gradients, where they stand, and where the gradients go.
#include <fmt/format.h>

#include "ffn/accumulator_impl.hpp"
#include "ffn/plan_impl.hpp"
#include "samebits/error.hpp"

namespace samebits {

void Plan::Impl::check_gradients(const Gradients& out) const {
  const std::int64_t held = shard.intermediate.length(), hidden = options.shape.hidden;
  const View* const views[] = {&out.d_gate, &out.d_up, &out.d_down};
  const char* const names[] = {"d_gate", "d_up", "d_down"};
  for (int i = 0; i < 3; ++i) {
    check_place(names[i], *views[i], DType::f32);
    View view = *views[i];
    view.dtype = DType::bf16;
    check_view(names[i], view, i == 2 ? hidden : held, i == 2 ? held : hidden);
  }
  if (out.d_up.dtype != out.d_gate.dtype || out.d_down.dtype != out.d_gate.dtype) {
    throw Error(ErrorCode::invalid_argument, "d_gate, d_up and d_down have one dtype");
  }
}

void Plan::Impl::check_accumulation(const BackwardArgs& args, const Call& call, bool wants_gradients) const {
  const auto refuse = [](const std::string& message) { throw Error(ErrorCode::invalid_argument, message); };
  if (args.counted < -1 || args.counted > call.shards->tokens) {
    refuse(fmt::format("{} tokens to count of {}", args.counted, call.shards->tokens));
  }
  if (args.accumulate == nullptr) {
    if (args.places != nullptr) refuse("places are those of an accumulation: give an accumulator too");
    return;
  }
  if (wants_gradients)
    refuse("gradients are written by the accumulator's finish: leave d_gate, d_up and d_down empty");
  if (args.accumulate->impl_ == nullptr || args.accumulate->impl_->plan != this)
    refuse("the accumulator was made for another plan");
}

ffn::Accumulation& Plan::Impl::sum_of(GradientAccumulator& accumulator) { return accumulator.impl_->sum; }

// The counted tokens by context rank, and how they travel. Refuses before anything is changed.
void Plan::Impl::begin_gradients(const BackwardArgs& args, const Call& call) {
  const std::int64_t count = args.counted < 0 ? call.shards->tokens : args.counted;
  ffn::clip(call.shards->of_rank, count, places);
  if (args.accumulate == nullptr) {
    numerics::AxisTree tokens = token_axis;
    tokens.length = count;
    reduction->begin(tokens, places);
    return;
  }
  if (args.places != nullptr) {
    check_places(*args.places);
    places = *args.places;
  } else {
    const std::int64_t before = args.accumulate->tokens();
    for (ffn::TokenPlaces& list : places) {
      for (Interval& interval : list) interval = {before + interval.begin, before + interval.end};
    }
  }
  sum_of(*args.accumulate).begin(places, *reduction);
}

// `places` holds the tokens that count, at the call's own positions.
void Plan::Impl::check_places(std::span<const ffn::TokenPlaces> given) const {
  if (given.size() != places.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("places for {} context ranks, the plan has {}", given.size(), places.size()));
  }
  for (std::size_t rank = 0; rank < given.size(); ++rank) {
    std::int64_t free_from = 0;
    for (const Interval& interval : given[rank]) {
      if (interval.begin < free_from || interval.length() <= 0) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("places of context rank {}: {} to {} is empty, or not behind the one before",
                                rank, interval.begin, interval.end));
      }
      free_from = interval.end;
    }
    if (ffn::count_tokens(given[rank]) != ffn::count_tokens(places[rank])) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("places for {} tokens of context rank {}, which holds {} that count",
                              ffn::count_tokens(given[rank]), rank, ffn::count_tokens(places[rank])));
    }
  }
}

}  // namespace samebits
