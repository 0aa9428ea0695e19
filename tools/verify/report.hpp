// What a verify found, as a table and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "block/layout_run.hpp"
#include "block/tensors.hpp"
#include "compute/report.hpp"
#include "verify/accuracy.hpp"
#include "verify/checks.hpp"
#include "verify/micro_batches.hpp"
#include "verify/recording.hpp"

namespace samebits::tools {

enum class RowStatus { ok, mismatch, refused };

struct LayoutRow {
  Layout layout;
  RowStatus status = RowStatus::ok;
  std::string reason;     // of a refusal
  LayoutOutcome outcome;  // meaningless when refused, as is `digest`
  PerTensor<std::string> digest;
};

struct VerifyResult {
  Shape shape;
  std::int64_t tokens = 0;
  std::string source;               // "qwen3-8b, seed 0"
  std::string note;                 // empty, or that the weights were rounded
  std::vector<LayoutRow> rows;      // tp1, twice computed, comes first
  PerTensor<std::int64_t> power{};  // elements that the control changes
  RowCheck row_vs_batch;
  std::vector<BatchCheck> batches;
  std::optional<MicroBatchCheck> micro_batches;
  std::optional<RecordingCheck> recording;
  std::optional<GoldenCheck> golden;
  std::optional<ReferenceCheck> reference;
  std::optional<Accuracy> accuracy;
  double seconds = 0;
  std::vector<std::int64_t> peak_rss_bytes;  // by process

  int most_ranks() const;                // of the layouts that ran
  std::int64_t repeat() const;           // elements that differ between two TP1 runs
  std::int64_t between_batches() const;  // that differ between batches of the first rows and the whole
  bool ok() const;
};

void print_verify(const VerifyResult& result, const Compute& compute);
Json verify_json(const VerifyResult& result, const Compute& compute);

}  // namespace samebits::tools
