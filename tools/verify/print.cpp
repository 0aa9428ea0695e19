// The tables of verify, readable at 100 columns.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "io/message.hpp"
#include "shared/table.hpp"
#include "verify/report.hpp"

namespace samebits::tools {
namespace {

std::vector<std::string> counts_row(std::string name, std::string status,
                                    const PerTensor<std::int64_t>& counts, std::string seconds) {
  std::vector<std::string> row{std::move(name), std::move(status)};
  for (const std::int64_t count : counts) row.push_back(fmt::format("{}", count));
  row.push_back(std::move(seconds));
  return row;
}

void print_layouts(const VerifyResult& result) {
  Table table({"layout", "", "output", "training", "d_hidden", "d_gate", "d_up", "d_down", "seconds"}, 2);
  for (const LayoutRow& row : result.rows) {
    const std::string name = name_of(row.layout);
    if (row.status == RowStatus::refused) {
      table.add({name, "refused", "-", "-", "-", "-", "-", "-", "-"});
    } else {
      table.add(counts_row(name, row.status == RowStatus::ok ? "ok" : "MISMATCH", row.outcome.differing,
                           fmt::format("{:.2f}", row.outcome.seconds)));
    }
  }
  table.add(counts_row("of", "elements", result.rows.front().outcome.compared, ""));
  table.add(counts_row("control", "changes", result.power, ""));
  fmt::print("Elements that differ from exact TP1 slices\n{}", table.text());
  for (const LayoutRow& row : result.rows) {
    if (row.status == RowStatus::refused) fmt::print("{} refused: {}\n", name_of(row.layout), row.reason);
  }
  fmt::print(
      "control: TP1 with the first split of the I and token axes moved; what it changes is the power of a "
      "column\n");
  for (int which = 0; which < kBlockTensors; ++which) {
    if (result.power[which] == 0)
      fmt::print("power 0: the column {} proves nothing here\n", kBlockTensorNames[which]);
  }
}

void print_checks(const VerifyResult& result) {
  fmt::print("\nrepeat         {} elements differ between two runs at TP1\n", result.repeat());
  fmt::print("row vs batch   {} elements differ: {} rows alone at M = 1, y and dx\n",
             result.row_vs_batch.output + result.row_vs_batch.d_hidden, result.row_vs_batch.rows);
  if (!result.batches.empty()) {
    fmt::print("batches        {} elements differ: the first rows as {} batches of their own, y and dx\n",
               result.between_batches(), result.batches.size());
    for (const BatchCheck& batch : result.batches) {
      if (batch.output + batch.d_hidden > 0)
        fmt::print("  {} rows: {} of y, {} of dx\n", batch.tokens, batch.output, batch.d_hidden);
    }
  }
  if (result.micro_batches) {
    fmt::print("micro-batches  {} elements differ: weight gradients summed over {} calls\n",
               result.micro_batches->differing, result.micro_batches->calls);
  }
  if (result.recording) {
    std::int64_t elements = 0;
    for (const auto& tensor : result.recording->tensors) elements += tensor.elements;
    fmt::print("recording      {} of {} elements differ from {}\n", result.recording->differing(), elements,
               io::printable(result.recording->path));
    for (const auto& tensor : result.recording->tensors)
      fmt::print("  {}: {} of {}\n", tensor.name, tensor.differing, tensor.elements);
  }
  if (result.golden) {
    fmt::print("golden         {} of {} known results differ{}\n", result.golden->differing(),
               result.golden->tensors.size(),
               result.golden->has_digests ? ", digests of a 77-token 64x208 block among them"
                                          : "; this contract has no golden digests");
    for (const auto& tensor : result.golden->tensors) {
      if (tensor.digest != tensor.expected)
        fmt::print("  {}: {}, not {}\n", tensor.name, tensor.digest, tensor.expected);
    }
  }
  if (!result.reference) return;
  std::int64_t samples = 0;
  for (const auto& tensor : result.reference->tensors) samples += tensor.samples;
  fmt::print("reference      {} of {} elements differ, evaluated literally: token {}, {} rows of I\n",
             result.reference->differing(), samples, result.reference->token, result.reference->rows.size());
  for (const auto& tensor : result.reference->tensors) {
    if (tensor.differing > 0) fmt::print("  {}: {} of {}\n", tensor.name, tensor.differing, tensor.samples);
  }
}

void print_accuracy(const Accuracy& accuracy) {
  Table table({"against float64", "rel L2", "max abs", "mean abs"});
  for (int i = 0; i < kAccuracyTensors; ++i) {
    table.add({kAccuracyNames[i], fmt::format("{:.4f} %", 100 * accuracy[i].rel_l2),
               fmt::format("{:.3g}", accuracy[i].max_abs), fmt::format("{:.3g}", accuracy[i].mean_abs)});
  }
  fmt::print("\n{}", table.text());
}

void print_digests(const VerifyResult& result) {
  const auto& tp1 = result.rows.front().digest;
  const bool same = std::all_of(result.rows.begin(), result.rows.end(), [&](const LayoutRow& row) {
    return row.status == RowStatus::refused || row.digest == tp1;
  });
  Table table({"tensor", same ? "digest, the same in every row" : "digest of tp1; rows that differ follow"},
              2);
  for (int which = 0; which < kBlockTensors; ++which) {
    table.add({kBlockTensorNames[which], tp1[which]});
    for (const LayoutRow& row : result.rows) {
      if (row.status == RowStatus::refused || row.digest[which] == tp1[which]) continue;
      table.add({"  " + name_of(row.layout), row.digest[which]});
    }
  }
  fmt::print("\n{}", table.text());
}

// A line on the processes that no layout had work for; empty when there are none.
std::string idle_text(const VerifyResult& result, const Compute& compute) {
  const int busy = result.most_ranks(), processes = compute.world->size();
  if (busy >= processes) return {};
  return fmt::format("idle       processes {} to {}: the largest layout that ran has {} ranks\n", busy,
                     processes - 1, busy);
}

}  // namespace

void print_verify(const VerifyResult& result, const Compute& compute) {
  fmt::print("block      {}x{}, {} tokens: {}\n", result.shape.hidden, result.shape.intermediate,
             result.tokens, result.source);
  if (!result.note.empty()) fmt::print("           {}\n", result.note);
  fmt::print("contract   {}, fingerprint {}\n", name_of(compute.contract), fingerprint(compute.contract));
  fmt::print("engine     {}, transport {}\n{}\n", compute.engine_text(), compute.transport_text(),
             idle_text(result, compute));
  print_layouts(result);
  print_checks(result);
  if (result.accuracy) print_accuracy(*result.accuracy);
  print_digests(result);
  const auto& peaks = result.peak_rss_bytes;
  fmt::print("\n{}: {:.1f} s, {:.2f} GiB peak memory{}\n", result.ok() ? "ok" : "MISMATCH", result.seconds,
             static_cast<double>(std::accumulate(peaks.begin(), peaks.end(), std::int64_t{0})) / (1 << 30),
             peaks.size() > 1 ? ", all processes together" : "");
}

}  // namespace samebits::tools
