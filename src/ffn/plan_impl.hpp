// What a plan holds. plan.cpp builds it, forward.cpp and backward.cpp run it, arguments.cpp checks what it is
// given.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "ffn/context/accumulation.hpp"
#include "ffn/context/token_reduction.hpp"
#include "ffn/rank/exchange_lane.hpp"
#include "ffn/rank/or_abort.hpp"
#include "ffn/rank/ranks.hpp"
#include "ffn/rank/weight_cuts.hpp"
#include "ffn/rank/workspace.hpp"
#include "ffn/tensor/column_gather.hpp"
#include "ffn/tensor/cover_reduction.hpp"
#include "samebits/accumulator.hpp"
#include "samebits/plan.hpp"

namespace samebits {

class Plan::Impl {
 public:
  explicit Impl(const PlanOptions& given);

  void forward(const ForwardArgs& args);
  void backward(const BackwardArgs& args);

  // The tokens of one call, as this rank sees them.
  struct Call {
    const TokenShards* shards;
    std::int64_t held;  // tokens of the context rank
    Interval slice;     // which of them this rank's x, y, dy and dx hold
    Queue queue;
  };

  bool by_rows() const { return cuts.by_rows(); }
  bool sharded() const { return ranks.tp > 1; }

  // arguments.cpp
  Call begin_call(const TokenShards* shards, std::int64_t tokens, std::int64_t rows_given, Queue queue);
  static void check_shape(const char* name, const ConstView& view, std::int64_t rows, std::int64_t cols);
  void check_view(const char* name, const ConstView& view, std::int64_t rows, std::int64_t cols) const;
  // The parts of check_view that do not depend on the shape; `also` is a second legal dtype.
  void check_place(const char* name, const ConstView& view, DType also) const;
  // Which weights are read: gate and up, those and down's, or a backward's.
  enum class Pass { activations, forward, backward };
  void check_weights(const Weights& weights, Pass pass) const;
  template <class Each>
  void for_each_weight(const Weights& weights, Pass pass, const Each& each) const;
  void compare_replicas(const Call& call, const ConstView& x, const ConstView& dy, const Weights& weights,
                        Pass pass, const std::string& call_words) const;
  static std::string words_of(const BackwardArgs& args, const Call& call);
  bool own_saved(const Saved& given) const;
  bool has_saved(const Call& call) const;    // some elements
  void leave_own(const Call& call);          // in the plan's memory
  void require_own(const Call& call) const;  // that the last forward left this call's there
  Saved saved_for(const Call& call, const Saved& given) const;

  // Something that is there when the ticket is waited for.
  using Ticket = ffn::ExchangeLane::Ticket;
  struct Tokens {
    ConstView view;
    Ticket arrival;
  };

  // plan.cpp
  Tokens gathered_tokens(const ConstView& mine, const View& buffer,
                         const Call& call);  // all tokens of the context rank
  ConstView arrived(const Tokens& tokens, const Call& call);
  View free_pack(std::int64_t rows, std::int64_t cols, const Call& call);  // no exchange reads it any more
  ConstView packed_copy(const ConstView& operand, const Call& call);       // itself where it is packed
  View output_or_staging(const View& out, const Call& call);
  void deliver(const View& out, const View& staged, Ticket arrival, const Call& call);

  // forward.cpp, backward.cpp
  // Chunks of a result; where it is this rank's slice of the tokens, one chunk is all of it.
  static View rows_of(const View& out, const Interval& chunk, const Call& call) {
    return chunk.length() == call.held ? out : out.slice_rows(chunk.begin, chunk.end);
  }
  Ticket forward_by_columns(const engine::GateUp& gate_up, const ConstView& down_columns, const View& y,
                            const Call& call);
  Interval exchange_dx(const Weights& weights, const View& dg, const View& du, const View& dx,
                       const Call& call);
  Ticket distribute_columns(const ConstView& mine, const View& out, const Call& call);
  void start_operand(ffn::TokenReduction::Slot slot, const Tokens& mine, const Call& call);

  // weight_gradients.cpp
  void check_gradients(const Gradients& out) const;
  void check_accumulation(const BackwardArgs& args, const Call& call, bool wants_gradients) const;
  void check_places(std::span<const ffn::TokenPlaces> given) const;
  void begin_gradients(const BackwardArgs& args, const Call& call);
  static ffn::Accumulation& sum_of(GradientAccumulator& accumulator);

  // A call on a queue: its exchanges are over when it returns, and a failure is told to the others.
  template <class Body>
  void run(Queue queue, const Body& body) {
    try {
      ffn::or_abort(
          ranks.all.get(),
          [&] {
            if (!lost.empty()) throw Error(ErrorCode::lost_rank, lost);
            body();
            exchanges->join(queue);
          },
          [&] { exchanges->abandon(queue); });
    } catch (const ffn::SharedError&) {
      throw;
    } catch (const std::exception& error) {
      if (covers && covers->writes_to_others() && lost.empty()) lost = error.what();
      throw;
    }
  }

  // What a call has failed by, and others were told: from then on this rank writes into nobody's memory.
  std::string lost;

  PlanOptions options;
  std::shared_ptr<engine::Engine> engine;
  numerics::AxisTree hidden_axis, intermediate_axis, token_axis;
  ffn::WeightCuts cuts;
  RankShard shard;
  ffn::Ranks ranks;
  ffn::Workspace workspace;
  std::unique_ptr<engine::Block> block;
  TokenShards even_shards;
  std::vector<std::size_t> token_bytes;  // of one gather over tensor ranks

  // Buffers for the largest call.
  View x_tokens{}, dy_tokens{};    // gathered over tensor ranks (sequence parallelism)
  View pack{};                     // a packed copy of a strided operand or result
  Ticket pack_reader{};            // the exchange that reads it
  View gate{}, up{}, act{};        // what forward leaves for backward
  std::int64_t saved_tokens = -1;  // of the forward that left them, on all ranks; -1: none yet
  std::vector<Interval> saved_of;  // which of them are here
  View d_gate{}, d_up{};
  View wide{}, wide_up{};                     // [tokens, I]: A, or dG and dU, of all tensor ranks (by rows)
  View part{};                                // [tokens, H_r]: this rank's columns of y or dX (by rows)
  std::optional<ffn::CoverReduction> covers;  // by columns
  std::optional<ffn::ColumnGather> gather_intermediate, gather_hidden;  // by rows
  std::optional<ffn::TokenReduction> reduction;
  std::vector<ffn::TokenPlaces> places;  // of the tokens that count in the call in hand, by context rank
  std::unique_ptr<ffn::ExchangeLane> exchanges;  // ends before what they move goes
};

}  // namespace samebits
