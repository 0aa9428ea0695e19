#include "samebits/checkpoint.hpp"

#include <fmt/format.h>

#include <cstring>

#include "io/checkpoint_config.hpp"
#include "io/checkpoint_files.hpp"
#include "io/checkpoint_names.hpp"
#include "io/message.hpp"
#include "io/safetensors_dtype.hpp"
#include "io/to_bf16.hpp"

namespace samebits {
namespace {

using io::CheckpointFiles;
using io::fail_file;
using io::printable;
using Located = CheckpointFiles::Located;

// What the names of the layer's tensors say of the block, where that is another than ours; empty otherwise.
std::string name_problem(std::string_view rest) {
  if (rest.starts_with("experts.") || rest.starts_with("shared_expert")) {
    return "a mixture of experts, which samebits does not compute; it takes dense SwiGLU blocks";
  }
  if (rest.starts_with("gate_up_proj.")) {
    return "gate and up fused in one tensor (gate_up_proj), which is not supported; store them as gate_proj "
           "and up_proj";
  }
  if (rest.ends_with("_proj.bias")) return "a bias; samebits takes blocks without bias";
  for (const std::string_view mark :
       {".qweight", ".qzeros", ".scales", ".g_idx", ".weight_scale", ".weight_scale_inv", ".weight_packed",
        ".weight.absmax", ".input_scale", ".SCB"}) {
    if (rest.ends_with(mark)) {
      return "quantised weights, which are not supported; use the BF16, F16 or F32 checkpoint";
    }
  }
  return {};
}

void refuse_other_blocks(const CheckpointFiles& files, const std::string& prefix, std::int64_t layer) {
  for (const std::string& name : files.names()) {
    const auto parsed = io::parse_mlp_name(name);
    if (!parsed || parsed->prefix != prefix || parsed->layer != layer) continue;
    const std::string problem = name_problem(parsed->rest);
    if (!problem.empty()) fail_file(files.listing(), fmt::format("holds '{}': {}", printable(name), problem));
  }
}

void check_dtype(const Located& weight) {
  if (io::view_dtype(weight.tensor->dtype)) return;
  const bool is_float = io::is_safetensors_float(weight.tensor->dtype);
  fail_file(weight.file.path(),
            fmt::format("tensor '{}' is {}{}; BF16, F16 and F32 weights are legal",
                        printable(weight.tensor->name), weight.tensor->dtype,
                        is_float ? "" : ", not a floating-point type: quantised weights are not supported"));
}

void check_same_dtype(const Located& first, const Located& other) {
  if (first.tensor->dtype == other.tensor->dtype) return;
  fail_file(
      other.file.path(),
      fmt::format("tensor '{}' is {}, but '{}' in {} is {}; the three weights of a layer have one dtype",
                  printable(other.tensor->name), other.tensor->dtype, printable(first.tensor->name),
                  printable(first.file.path()), first.tensor->dtype));
}

void check_shape(const Located& weight, std::string_view axes, std::int64_t rows, std::int64_t cols,
                 std::string_view reason) {
  const std::int64_t expected[] = {rows, cols};
  const auto& shape = weight.tensor->shape;
  if (shape.size() == 2 && shape[0] == rows && shape[1] == cols) return;
  fail_file(weight.file.path(),
            fmt::format("tensor '{}' has the shape {}; expected {} = {}, {}", printable(weight.tensor->name),
                        io::shape_text(shape), axes, io::shape_text(expected), reason));
}

// The shape that all three must agree on: the configuration's where it says one, the gate's otherwise.
Shape shape_of(const Located& gate, const io::CheckpointConfig& config) {
  const auto& given = gate.tensor->shape;
  if (given.size() != 2 || given[0] < 1 || given[1] < 1) {
    fail_file(gate.file.path(), fmt::format("tensor '{}' has the shape {}; expected a matrix [I, H]",
                                            printable(gate.tensor->name), io::shape_text(given)));
  }
  return {config.hidden.value_or(given[1]), config.intermediate.value_or(given[0])};
}

// BF16 where it lies, or else in an aligned copy of the same bits; F16 and F32 rounded.
HostMatrix as_bf16(const Located& weight) {
  const HostMatrix matrix = weight.file.matrix(*weight.tensor);
  const ConstView& from = matrix.view;
  if (from.dtype == DType::bf16) return matrix;
  const std::shared_ptr<numerics::Bf16[]> copy(new numerics::Bf16[static_cast<std::size_t>(from.elements())]);
  numerics::Bf16* const to = copy.get();
  if (from.dtype == DType::f16) {
    const auto* const bits = static_cast<const std::uint16_t*>(from.data);
    for (std::int64_t i = 0; i < from.elements(); ++i) to[i] = io::bf16_of_f16(bits[i]);
  } else {
    const auto* const bits = static_cast<const std::uint32_t*>(from.data);
    for (std::int64_t i = 0; i < from.elements(); ++i) to[i] = io::bf16_of_f32(bits[i]);
  }
  return {host_view(static_cast<const void*>(to), from.rows, from.cols), copy};
}

}  // namespace

LayerWeights load_layer(const std::string& folder, std::int64_t layer) {
  const io::CheckpointConfig config = io::read_checkpoint_config(folder);
  CheckpointFiles files(folder);
  const io::LanguageModel model = io::find_language_model(files.names(), files.listing());
  if (!model.layers.contains(layer)) {
    fail_file(files.listing(),
              fmt::format("holds no layer {}; it holds {}", layer, io::layers_text(model.layers)));
  }
  refuse_other_blocks(files, model.prefix, layer);

  const std::string block = fmt::format("{}layers.{}.mlp", model.prefix, layer);
  const Located gate = files.locate(block + ".gate_proj.weight");
  const Located up = files.locate(block + ".up_proj.weight");
  const Located down = files.locate(block + ".down_proj.weight");
  for (const Located* weight : {&gate, &up, &down}) check_dtype(*weight);
  check_same_dtype(gate, up);
  check_same_dtype(gate, down);

  const Shape shape = shape_of(gate, config);
  const std::string gate_text = fmt::format("that of '{}'", printable(gate.tensor->name));
  const std::string reason =
      fmt::format("where H is {} and I is {}", config.hidden ? "hidden_size of config.json" : gate_text,
                  config.intermediate ? "intermediate_size of config.json" : gate_text);
  check_shape(gate, "[I, H]", shape.intermediate, shape.hidden, reason);
  check_shape(up, "[I, H]", shape.intermediate, shape.hidden, reason);
  check_shape(down, "[H, I]", shape.hidden, shape.intermediate, reason);

  LayerWeights out;
  out.shape = shape;
  out.source = fmt::format("{}, {}", folder, block);
  if (gate.tensor->dtype != "BF16")
    out.conversion = fmt::format("{} rounded to nearest even bf16", gate.tensor->dtype);
  const auto take = [&](const Located& weight) {
    HostMatrix matrix = as_bf16(weight);
    out.owners.push_back(std::move(matrix.owner));
    return matrix.view;
  };
  out.gate = take(gate);
  out.up = take(up);
  out.down = take(down);
  return out;
}

}  // namespace samebits
