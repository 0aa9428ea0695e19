// How a launch of stream.cuh cuts its rows and its shared memory; no bit depends on it.
#pragma once

#include <cstdint>

#include "engine/cuda/sm90/stream.hpp"

namespace samebits::engine::cuda::stream {

// A stage, as the choice sees it.
struct PhaseShape {
  std::int64_t rows = 0;  // of the weights
  int parts = 1;          // weight matrices contracted side by side
  bool columns = false;   // weights by columns: rows come in chunks of 32
  int most_rows = 0;      // that the warps of a block hold
  int values = 0;         // of a thread
  int pending = 0;        // most pending nodes
  int turns = 0;          // of 64 k along the axis
  int common_turns =
      0;  // every leaf has a multiple of them, and one copy may bring several; 0: some leaf has part of one
};

struct PhaseTuning {
  int rows = 0;        // of each weight matrix, a block
  int slot_bytes = 0;  // of weights and tokens
  int per_slot = 1;    // turns
  int units = 0;       // blocks' worth of rows
};

struct StreamTuning {
  int cluster = 1;  // blocks that share the loads of the tokens
  int blocks = 0;
  int slots = 0, slot_bytes = 0;
  int shared_bytes = 0;
  bool shared_pending = false;
  PhaseTuning first, second;
};

int token_columns(std::int64_t tokens);  // the narrowest operand that holds them

// `second` null: one stage.
// `tokens`: 8, 16 or 32 columns.
StreamTuning choose_stream(int tokens, const PhaseShape& first, const PhaseShape* second,
                           const StreamDevice& device);

}  // namespace samebits::engine::cuda::stream
