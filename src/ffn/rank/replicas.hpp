// Whether ranks hold the same of what they hold copies of, by digests: on request, since all of it is read.
#pragma once

#include <span>
#include <string>

#include "engine/engine.hpp"
#include "ffn/rank/ranks.hpp"

namespace samebits::ffn {

// Whose copies of an operand are the same.
enum class CopiedOver {
  tensor,   // the tensor ranks of a context rank
  context,  // the context ranks of a tensor rank
  nobody,
};

struct Replica {
  const char* name = "-";
  ConstView view{};
  CopiedOver over = CopiedOver::nobody;
};

// Collective: as many replicas on every rank. `tokens`: in words, how the call's tokens are dealt out, which
// is the same on all ranks. Throws Error(disagreement) on all ranks where one has others.
void compare_replicas(const Ranks& ranks, engine::Engine& engine, const std::string& tokens,
                      std::span<const Replica> replicas, Queue queue);

}  // namespace samebits::ffn
