// What a verify is asked for, checked, and the block that it is asked of. Every process has its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "block/layout_run.hpp"
#include "block/source.hpp"
#include "compute/compute_flags.hpp"
#include "shared/shapes.hpp"
#include "verify/recording.hpp"
#include "world/agreement.hpp"

namespace samebits::tools {

struct VerifyFlags {
  std::string shape = "qwen3-8b", tokens = "32", checkpoint, layer, recording, batches, micro_batches,
              layouts = "all", gradient_dtype = "bf16", json;
  std::uint64_t seed = 0;
  bool accuracy = false, no_reference = false;
  ComputeFlags compute;
};

struct VerifyTask {
  std::vector<Layout> layouts;
  bool all = false;  // refusals are rows
  bool reference = true;
  bool accuracy = false;
  std::vector<std::int64_t> batches;
  std::int64_t micro_batches = 0;  // 0: not asked for
  const Recording* recording = nullptr;
};

struct VerifyWork {
  VerifyTask task;
  NamedShape named;
  std::optional<LayerWeights> weights;
  std::optional<Recording> recording;
  HostTensor x, dy;  // seeded
  BlockCase block;

  // Throws for what is wrong or too large; what is seeded is not yet made.
  VerifyWork(const VerifyFlags& flags, const Compute& compute);
  VerifyWork(const VerifyWork&) = delete;  // views point into it
  VerifyWork& operator=(const VerifyWork&) = delete;

  std::vector<AgreedField> agreed(const VerifyFlags& flags, const Compute& compute) const;
  void make_inputs(const VerifyFlags& flags, int threads);
  std::string source(const VerifyFlags& flags) const;  // "qwen3-8b, seed 0"
  std::string note() const;                            // empty, or what was rounded
  int steps() const;                                   // of the progress
};

}  // namespace samebits::tools
