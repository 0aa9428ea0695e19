// samebits compare: two safetensors files, tensor by tensor.
#include "samebits/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <memory>

#include "compute/report.hpp"
#include "io/message.hpp"
#include "io/safetensors_dtype.hpp"
#include "samebits/error.hpp"
#include "samebits/safetensors.hpp"
#include "shared/failure.hpp"
#include "shared/table.hpp"
#include "shared/tensor_file.hpp"
#include "verbs/verbs.hpp"

namespace samebits::tools {
namespace {

struct Flags {
  std::string a, b, json;
};

// One row of the result. `first` is the coordinate of the first difference, with both values in hex.
struct Comparison {
  std::string name, dtype, shape;
  std::string status = "equal";  // equal, mismatch, other kind, only in A, only in B
  std::int64_t elements = 0, differing = 0, nans = 0;
  std::vector<std::int64_t> first{};
  std::string a_value{}, b_value{};  // of the first difference; what the kinds are where those differ
  std::optional<std::uint64_t> max_ulps{};
};

std::vector<std::int64_t> coordinate(const std::vector<std::int64_t>& shape, std::int64_t index) {
  std::vector<std::int64_t> place(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    place[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return place;
}

// Elements of a dtype that views know.
void compare_floats(const SafetensorsFile& a, const SafetensorsFile& b, const SafetensorsTensor& tensor,
                    bool any_nan_equal, Comparison& out) {
  const HostMatrix left = a.matrix(tensor.name), right = b.matrix(tensor.name);
  const TensorDifference difference = compare(left.view, right.view, {.any_nan_equal = any_nan_equal});
  out.elements = difference.elements;
  out.differing = difference.differing;
  out.nans = difference.nan_against_number + difference.nan_against_nan;
  if (difference.equal()) return;
  const auto digits = 2 * size_of(difference.dtype);
  out.first = coordinate(tensor.shape, difference.row * left.view.cols + difference.col);
  out.a_value = fmt::format("0x{:0{}x}", difference.a_bits, digits);
  out.b_value = fmt::format("0x{:0{}x}", difference.b_bits, digits);
  if (out.nans < out.differing) out.max_ulps = difference.max_ulps;
}

// Any other dtype, as bytes: elements of whole bytes, else byte by byte.
void compare_bytes(const SafetensorsTensor& a, const SafetensorsTensor& b, Comparison& out) {
  const std::uint32_t bits = io::safetensors_bits(a.dtype);
  const std::size_t size = bits % 8 == 0 && bits > 0 ? bits / 8 : 1;
  const auto *left = static_cast<const unsigned char*>(a.data),
             *right = static_cast<const unsigned char*>(b.data);
  out.elements = static_cast<std::int64_t>(a.bytes() / size);
  for (std::int64_t i = 0; i < out.elements; ++i, left += size, right += size) {
    if (std::memcmp(left, right, size) == 0) continue;
    if (out.differing++ > 0) continue;
    const auto hex = [&](const unsigned char* bytes) {
      std::string text = "0x";
      for (std::size_t byte = size; byte-- > 0;) text += fmt::format("{:02x}", bytes[byte]);
      return text;
    };
    out.first = bits % 8 == 0 ? coordinate(a.shape, i) : std::vector<std::int64_t>{i};
    out.a_value = hex(left);
    out.b_value = hex(right);
  }
}

Comparison compare_tensor(const SafetensorsFile& a, const SafetensorsFile& b, const SafetensorsTensor& tensor,
                          bool any_nan_equal) {
  Comparison out{io::printable(tensor.name), dtype_text(tensor), shape_text(tensor)};
  const SafetensorsTensor* other = b.find(tensor.name);
  if (other == nullptr) {
    out.status = "only in A";
    return out;
  }
  if (tensor.dtype != other->dtype || tensor.shape != other->shape) {
    out.status = "other kind";
    out.a_value = fmt::format("{}:{}", out.dtype, out.shape);
    out.b_value = fmt::format("{}:{}", dtype_text(*other), shape_text(*other));
    return out;
  }
  if (io::view_dtype(tensor.dtype)) {
    compare_floats(a, b, tensor, any_nan_equal, out);
  } else {
    compare_bytes(tensor, *other, out);
  }
  if (out.differing > 0) out.status = "mismatch";
  return out;
}

Json to_json(const Comparison& row) {
  Json json = {{"name", row.name},     {"dtype", row.dtype},       {"shape", row.shape},
               {"status", row.status}, {"elements", row.elements}, {"differing", row.differing},
               {"nans", row.nans}};
  json["first"] = row.differing > 0 ? Json(row.first) : Json(nullptr);
  json["a"] = row.a_value.empty() ? Json(nullptr) : Json(row.a_value);
  json["b"] = row.b_value.empty() ? Json(nullptr) : Json(row.b_value);
  json["max_ulps"] = row.max_ulps ? Json(*row.max_ulps) : Json(nullptr);
  return json;
}

int run_compare(const Flags& flags) {
  ReportFile report_file(flags.json);
  const auto a = SafetensorsFile::open(flags.a), b = SafetensorsFile::open(flags.b);
  const auto contract_a = contract_of(a), contract_b = contract_of(b);
  if (contract_a && contract_b && *contract_a != *contract_b) {
    fail_usage(fmt::format(
        "{} and {} were made under different contracts, {} and {}: their results are never compared",
        io::printable(flags.a), io::printable(flags.b), io::printable(*contract_a),
        io::printable(*contract_b)));
  }
  const bool recording = !contract_a || !contract_b;  // of other software, whose NaNs hold other bits

  std::vector<Comparison> rows;
  for (const SafetensorsTensor& tensor : a.tensors()) rows.push_back(compare_tensor(a, b, tensor, recording));
  for (const SafetensorsTensor& tensor : b.tensors()) {
    if (a.find(tensor.name) == nullptr) {
      rows.push_back({io::printable(tensor.name), dtype_text(tensor), shape_text(tensor), "only in B"});
    }
  }
  bool ok = true;
  Table table({"tensor", "kind", "status", "elements", "differing", "first", "A", "B", "max ulps", "NaNs"},
              3);
  Json tensors = Json::array();
  for (const Comparison& row : rows) {
    ok = ok && row.status == "equal";
    table.add({row.name, row.dtype + ":" + row.shape, row.status, fmt::format("{}", row.elements),
               fmt::format("{}", row.differing),
               row.differing > 0 ? fmt::format("[{}]", fmt::join(row.first, ", ")) : "", row.a_value,
               row.b_value, row.max_ulps ? fmt::format("{}", *row.max_ulps) : "",
               row.nans > 0 ? fmt::format("{}", row.nans) : ""});
    tensors.push_back(to_json(row));
  }
  if (!report_file.takes_stdout()) {
    fmt::print("{}\n{}\n", table.text(), ok ? "ok: the same bits" : "mismatch");
    if (recording)
      fmt::print("a file without a contract is a recording of other software: any NaN equals any NaN\n");
  }
  Json report = report_head("compare");
  report["a"] = {{"path", flags.a}, {"contract", contract_a ? Json(*contract_a) : Json(nullptr)}};
  report["b"] = {{"path", flags.b}, {"contract", contract_b ? Json(*contract_b) : Json(nullptr)}};
  report["environment"] = environment_json();
  report["any_nan_equal"] = recording;
  report["tensors"] = tensors;
  report["ok"] = ok;
  report_file.commit(report);
  return ok ? kHeld : kMismatch;
}

}  // namespace

Verb add_compare(CLI::App& command) {
  CLI::App* verb = command.add_subcommand("compare", "Two safetensors files, tensor by tensor, bit by bit");
  const auto flags = std::make_shared<Flags>();
  verb->add_option("A", flags->a, "safetensors file")->required();
  verb->add_option("B", flags->b, "safetensors file")->required();
  add_json_flag(*verb, flags->json);
  return {verb, [flags] { return run_compare(*flags); }};
}

}  // namespace samebits::tools
