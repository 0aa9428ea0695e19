// What every context rank has, to all of them, in the order of slots (Levels::slot_of). In two levels each
// rank's part crosses between machines once, and is handed on inside.
#pragma once

#include <span>
#include <vector>

#include "ffn/rank/ranks.hpp"
#include "samebits/memory.hpp"

namespace samebits::ffn {

class ContextGather {
 public:
  explicit ContextGather(const Ranks& ranks);

  // bytes[r]: of context rank r.
  void run(const void* send, void* receive, std::span<const std::size_t> bytes, MemorySpace space,
           Queue queue);

 private:
  const Ranks& ranks_;
  std::vector<std::size_t> across_, inside_;  // bytes of a level's ranks
};

}  // namespace samebits::ffn
