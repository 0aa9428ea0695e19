#include "verify/report.hpp"

#include <algorithm>
#include <numeric>

#include "shared/machine.hpp"

namespace samebits::tools {
namespace {

const char* text_of(RowStatus status) {
  return status == RowStatus::ok ? "ok" : status == RowStatus::mismatch ? "mismatch" : "refused";
}

template <class Value>
Json per_tensor_json(const PerTensor<Value>& values) {
  Json json = Json::object();
  for (int which = 0; which < kBlockTensors; ++which) json[kBlockTensorNames[which]] = values[which];
  return json;
}

Json row_json(const LayoutRow& row) {
  Json json = {{"name", name_of(row.layout)},
               {"tp", row.layout.tp},
               {"cp", row.layout.cp},
               {"sp", row.layout.sequence_parallel},
               {"status", text_of(row.status)}};
  const bool ran = row.status != RowStatus::refused;
  json["reason"] = ran ? Json(nullptr) : Json(row.reason);
  json["mismatch"] = ran ? per_tensor_json(row.outcome.differing) : Json(nullptr);
  json["elements"] = ran ? per_tensor_json(row.outcome.compared) : Json(nullptr);
  json["digest"] = ran ? per_tensor_json(row.digest) : Json(nullptr);
  json["seconds"] = ran ? Json(row.outcome.seconds) : Json(nullptr);
  return json;
}

Json micro_batches_json(const std::optional<MicroBatchCheck>& check) {
  return check ? Json{{"calls", check->calls}, {"gradients", check->differing}} : Json();
}

Json batches_json(const std::vector<BatchCheck>& batches) {
  Json json = Json::array();
  for (const BatchCheck& batch : batches)
    json.push_back({{"tokens", batch.tokens}, {"output", batch.output}, {"d_hidden", batch.d_hidden}});
  return json;
}

Json recording_json(const std::optional<RecordingCheck>& recording) {
  if (!recording) return nullptr;
  Json elements = Json::object(), differing = Json::object();
  for (const auto& tensor : recording->tensors) {
    elements[tensor.name] = tensor.elements;
    differing[tensor.name] = tensor.differing;
  }
  return {{"path", recording->path}, {"elements", elements}, {"mismatch", differing}};
}

Json golden_json(const std::optional<GoldenCheck>& golden) {
  if (!golden) return nullptr;
  Json tensors = Json::array();
  for (const auto& tensor : golden->tensors) {
    tensors.push_back({{"name", tensor.name}, {"expected", tensor.expected}, {"digest", tensor.digest}});
  }
  return {{"tensors", tensors}, {"differing", golden->differing()}};
}

Json reference_json(const std::optional<ReferenceCheck>& reference) {
  if (!reference) return nullptr;
  Json samples = Json::object(), differing = Json::object();
  for (const auto& tensor : reference->tensors) {
    samples[tensor.name] = tensor.samples;
    differing[tensor.name] = tensor.differing;
  }
  return {
      {"token", reference->token}, {"rows", reference->rows}, {"elements", samples}, {"mismatch", differing}};
}

Json accuracy_json(const std::optional<Accuracy>& accuracy) {
  if (!accuracy) return nullptr;
  Json json = Json::object();
  for (int i = 0; i < kAccuracyTensors; ++i) {
    const ErrorNorms& norms = (*accuracy)[i];
    json[kAccuracyNames[i]] = {
        {"rel_l2", norms.rel_l2}, {"max_abs", norms.max_abs}, {"mean_abs", norms.mean_abs}};
  }
  return json;
}

}  // namespace

int VerifyResult::most_ranks() const {
  int most = 1;
  for (const LayoutRow& row : rows) {
    if (row.status != RowStatus::refused) most = std::max(most, row.layout.ranks());
  }
  return most;
}

std::int64_t VerifyResult::repeat() const {
  const auto& differing = rows.front().outcome.differing;
  return std::accumulate(differing.begin(), differing.end(), std::int64_t{0});
}

std::int64_t VerifyResult::between_batches() const {
  std::int64_t sum = 0;
  for (const BatchCheck& batch : batches) sum += batch.output + batch.d_hidden;
  return sum;
}

bool VerifyResult::ok() const {
  return std::none_of(rows.begin(), rows.end(),
                      [](auto& row) { return row.status == RowStatus::mismatch; }) &&
         row_vs_batch.output + row_vs_batch.d_hidden == 0 && between_batches() == 0 &&
         (!micro_batches || micro_batches->differing == 0) && (!recording || recording->differing() == 0) &&
         (!golden || golden->differing() == 0) && (!reference || reference->differing() == 0);
}

Json verify_json(const VerifyResult& result, const Compute& compute) {
  Json report = report_head("verify");
  report["contract"] = contract_json(compute.contract);
  report["environment"] = environment_json(compute);
  report["environment"]["seconds"] = result.seconds;
  add_peak_memory(report["environment"]);
  if (compute.has_processes()) {
    Json& mpi = report["environment"]["mpi"];
    mpi["idle"] = compute.world->size() - result.most_ranks();
    mpi["peak_rss_bytes"] = result.peak_rss_bytes;
  }
  report["shape"] = {{"tokens", result.tokens},
                     {"hidden", result.shape.hidden},
                     {"intermediate", result.shape.intermediate},
                     {"source", result.source}};
  if (!result.note.empty()) report["shape"]["note"] = result.note;
  report["layouts"] = Json::array();
  for (const LayoutRow& row : result.rows) report["layouts"].push_back(row_json(row));
  report["invariance"] = {{"repeat", result.repeat()},
                          {"row_vs_batch", result.row_vs_batch.output + result.row_vs_batch.d_hidden},
                          {"rows", result.row_vs_batch.rows},
                          {"batches", batches_json(result.batches)},
                          {"micro_batches", micro_batches_json(result.micro_batches)}};
  report["power"] = per_tensor_json(result.power);
  report["accuracy"] = accuracy_json(result.accuracy);
  report["recording"] = recording_json(result.recording);
  report["golden"] = golden_json(result.golden);
  report["reference"] = reference_json(result.reference);
  report["ok"] = result.ok();
  return report;
}

}  // namespace samebits::tools
