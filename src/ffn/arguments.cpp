// What a call was given, against what the plan expects.
#include <fmt/format.h>

#include <array>
#include <utility>

#include "ffn/plan_impl.hpp"
#include "ffn/rank/replicas.hpp"
#include "layout/cuts.hpp"
#include "samebits/error.hpp"

namespace samebits {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

// "0-8 16-24 | 8-16": the intervals of each context rank, those that touch as one.
std::string in_words(const std::vector<std::vector<Interval>>& of_rank) {
  std::string text;
  for (const auto& intervals : of_rank) {
    if (&intervals != &of_rank.front()) text += " | ";
    const char* space = "";
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      const std::int64_t begin = intervals[i].begin;
      while (i + 1 < intervals.size() && intervals[i + 1].begin == intervals[i].end) ++i;
      text += fmt::format("{}{}-{}", std::exchange(space, " "), begin, intervals[i].end);
    }
  }
  return text;
}

}  // namespace

Plan::Impl::Call Plan::Impl::begin_call(const TokenShards* shards, std::int64_t tokens,
                                        std::int64_t rows_given, Queue queue) {
  if (tokens < -1) refuse(fmt::format("{} tokens: a count is not negative", tokens));
  if (shards == nullptr) {
    if (tokens < 0) {
      if (ranks.cp > 1 || (sharded() && options.layout.sequence_parallel)) {
        refuse("a rank that holds some of the tokens is told how many there are: set `tokens` or `shards`");
      }
      tokens = rows_given;
    }
    if (even_shards.tokens != tokens) {  // in place: no allocation
      even_shards.tokens = tokens;
      for (int rank = 0; rank < ranks.cp; ++rank) {
        auto& intervals = even_shards.of_rank[static_cast<std::size_t>(rank)];
        intervals.clear();
        if (const Interval slice = even_slice(tokens, ranks.cp, rank); slice.length() > 0)
          intervals.push_back(slice);
      }
    }
    shards = &even_shards;
  }
  if (shards != &even_shards) layout::check_shards(*shards);
  if (shards->of_rank.size() != static_cast<std::size_t>(ranks.cp)) {
    refuse(
        fmt::format("token shards for {} context ranks, the plan has {}", shards->of_rank.size(), ranks.cp));
  }
  if (tokens >= 0 && tokens != shards->tokens) {
    refuse(fmt::format("{} tokens were announced, the token shards hold {}", tokens, shards->tokens));
  }
  // All ranks know all shards, so all of them refuse.
  for (int rank = 0; rank < ranks.cp; ++rank) {
    if (shards->tokens <= options.max_tokens && shards->count(rank) <= options.max_rank_tokens) continue;
    refuse(fmt::format(
        "{} tokens ({} on context rank {}) are more than the plan's max_tokens {} (max_rank_tokens {})",
        shards->tokens, shards->count(rank), rank, options.max_tokens, options.max_rank_tokens));
  }
  const std::int64_t held = shards->count(ranks.cp_rank);
  const bool slices = sharded() && options.layout.sequence_parallel;
  return {shards, held, slices ? even_slice(held, ranks.tp, ranks.tp_rank) : Interval{0, held}, queue};
}

void Plan::Impl::check_shape(const char* name, const ConstView& view, std::int64_t rows, std::int64_t cols) {
  if (view.rows != rows || view.cols != cols) {
    refuse(fmt::format("{} is {} x {}, the plan expects {} x {}", name, view.rows, view.cols, rows, cols));
  }
}

void Plan::Impl::check_view(const char* name, const ConstView& view, std::int64_t rows,
                            std::int64_t cols) const {
  check_shape(name, view, rows, cols);
  check_place(name, view, DType::bf16);
}

void Plan::Impl::check_place(const char* name, const ConstView& view, DType also) const {
  if (view.dtype != DType::bf16 && view.dtype != also) {
    refuse(fmt::format("{} is {}, the plan expects bf16{}", name, name_of(view.dtype),
                       also == DType::bf16 ? std::string() : fmt::format(" or {}", name_of(also))));
  }
  if (view.empty()) return;
  if (view.data == nullptr) refuse(fmt::format("{} has no data", name));
  if (reinterpret_cast<std::uintptr_t>(view.data) % size_of(view.dtype) != 0) {
    refuse(fmt::format("{} begins at an address that is no multiple of {}", name, size_of(view.dtype)));
  }
  if (!(view.device == engine->device()))
    refuse(fmt::format("{} lies on another device ({}) than the plan's engine ({})", name,
                       name_of(view.device), name_of(engine->device())));
  engine->require_reachable(name, view);
}

template <class Each>
void Plan::Impl::for_each_weight(const Weights& w, Pass pass, const Each& each) const {
  const std::int64_t hidden = options.shape.hidden, intermediate = options.shape.intermediate;
  const std::int64_t i = shard.intermediate.length(), h = shard.hidden.length();
  const bool backward = pass == Pass::backward;
  if (!backward || !by_rows()) {
    each("gate", w.gate, i, hidden);
    each("up", w.up, i, hidden);
  }
  if (backward || (pass == Pass::forward && !by_rows())) each("down", w.down, hidden, i);
  if (!by_rows()) return;
  if (backward) {
    each("gate_columns", w.gate_columns, intermediate, h);
    each("up_columns", w.up_columns, intermediate, h);
  } else if (pass == Pass::forward) {
    each("down_rows", w.down_rows, h, intermediate);
  }
}

void Plan::Impl::check_weights(const Weights& weights, Pass pass) const {
  for_each_weight(weights, pass,
                  [&](const char* name, const ConstView& view, std::int64_t rows, std::int64_t cols) {
                    check_view(name, view, rows, cols);
                  });
}

// `call_words`: what the call does beside the tokens and operands, alike on all ranks.
void Plan::Impl::compare_replicas(const Call& call, const ConstView& x, const ConstView& dy,
                                  const Weights& weights, Pass pass, const std::string& call_words) const {
  using Over = ffn::CopiedOver;
  const Over of_tokens = options.layout.sequence_parallel ? Over::nobody : Over::tensor;
  std::array<ffn::Replica, 5> replicas{{{"x", x, of_tokens}, {"dy", dy, of_tokens}}};
  std::size_t count = 2;
  for_each_weight(weights, pass, [&](const char* name, const ConstView& view, std::int64_t, std::int64_t) {
    replicas.at(count++) = {name, view, Over::context};
  });
  const std::string tokens = fmt::format("{}, {}", in_words(call.shards->of_rank), call_words);
  ffn::compare_replicas(ranks, *engine, tokens, replicas, call.queue);
}

std::string Plan::Impl::words_of(const BackwardArgs& args, const Call& call) {
  std::string words = args.dx.cols > 0 ? "dx" : "no dx";
  if (args.accumulate == nullptr && args.d_gate.cols == 0) return words;
  words += fmt::format(", {} of {} tokens", args.accumulate != nullptr ? "a sum" : "gradients",
                       args.counted < 0 ? call.shards->tokens : args.counted);
  if (args.places != nullptr) words += fmt::format(" at {}", in_words(*args.places));
  return words;
}

bool Plan::Impl::own_saved(const Saved& given) const {
  // Of no tokens or no columns, what is given may have no data.
  const auto is_given = [](const View& view) {
    return view.data != nullptr || view.rows > 0 || view.cols > 0;
  };
  return !is_given(given.gate) && !is_given(given.up) && !is_given(given.act);
}

bool Plan::Impl::has_saved(const Call& call) const {
  return call.held > 0 && shard.intermediate.length() > 0;
}

void Plan::Impl::leave_own(const Call& call) {
  if (!has_saved(call)) return;
  const std::vector<Interval>& mine = call.shards->of_rank[static_cast<std::size_t>(ranks.cp_rank)];
  saved_tokens = call.shards->tokens;
  saved_of.assign(mine.begin(), mine.end());
}

void Plan::Impl::require_own(const Call& call) const {
  if (!has_saved(call)) return;
  if (saved_tokens < 0) refuse("backward before any forward of this plan left its activations");
  const char* const ways = "keep activations of several forwards in ForwardArgs::saved";
  if (saved_tokens != call.shards->tokens) {
    refuse(fmt::format("backward of {} tokens, but the plan's last forward had {}; {}", call.shards->tokens,
                       saved_tokens, ways));
  }
  if (saved_of != call.shards->of_rank[static_cast<std::size_t>(ranks.cp_rank)])
    refuse(fmt::format("backward of other tokens than the plan's last forward had on this rank; {}", ways));
}

Saved Plan::Impl::saved_for(const Call& call, const Saved& given) const {
  const std::int64_t cols = shard.intermediate.length();
  if (own_saved(given)) {
    if (!options.own_saved && has_saved(call))
      refuse("the plan has no room of its own for activations: give `saved`");
    return {ffn::packed(gate, call.held, cols), ffn::packed(up, call.held, cols),
            ffn::packed(act, call.held, cols)};
  }
  check_view("saved.gate", given.gate, call.held, cols);
  check_view("saved.up", given.up, call.held, cols);
  check_view("saved.act", given.act, call.held, cols);
  if (!given.gate.contiguous() || !given.up.contiguous() || !given.act.contiguous())
    refuse("saved activations are packed");
  return given;
}

}  // namespace samebits
