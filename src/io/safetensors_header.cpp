#include "io/safetensors_header.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "io/message.hpp"

namespace samebits::io {
namespace {

using nlohmann::json;

constexpr std::size_t kMostAxes = 64;

// The header is an object of objects, so its grammar is a dozen places in which an event is expected or
// wrong. Nothing nests deeper, and nothing here recurses. A SAX reader, since the DOM reader keeps the last
// of two equal keys and says nothing.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(SafetensorsContents& contents) : contents_(contents) {}

  const std::string& problem() const { return problem_; }

  bool null() override { return unexpected("null"); }
  bool boolean(bool value) override { return unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return unexpected(value == 0 ? "-0" : fmt::format("{}", value));  // the non-negative ones come below
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (at_ == At::shape_items) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return unexpected(fmt::format("{}", value));
      }
      if (tensor_.shape.size() == kMostAxes)
        return fail(in_tensor(fmt::format("has more than {} axes", kMostAxes)));
      tensor_.shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (at_ == At::offset_items && offsets_ < 2) {
      (offsets_ == 0 ? tensor_.begin : tensor_.end) = value;
      ++offsets_;
      return true;
    }
    if (at_ == At::offset_items) return fail(in_tensor("has more than two numbers in data_offsets"));
    return unexpected(fmt::format("{}", value));
  }
  bool number_float(number_float_t, const std::string& text) override { return unexpected(text); }
  bool binary(json::binary_t&) override { return unexpected("binary data"); }

  bool string(std::string& value) override {
    if (at_ == At::dtype) {
      tensor_.dtype = std::move(value);
      at_ = At::tensor;
      return true;
    }
    if (at_ == At::metadata_text) {
      contents_.metadata[metadata_key_] = std::move(value);
      at_ = At::metadata;
      return true;
    }
    return unexpected("a string");
  }

  bool start_object(std::size_t) override {
    if (at_ == At::start) return go(At::top);
    if (at_ == At::metadata_value) return go(At::metadata);
    if (at_ == At::tensor_value) return go(At::tensor);
    return unexpected("an object");
  }
  bool start_array(std::size_t) override {
    if (at_ == At::shape) return go(At::shape_items);
    if (at_ == At::offsets) return go(At::offset_items);
    return unexpected("an array");
  }

  bool key(std::string& name) override {
    if (at_ == At::top) return top_key(name);
    if (at_ == At::metadata) {
      if (contents_.metadata.contains(name)) return fail(twice("__metadata__ holds", name));
      metadata_key_ = std::move(name);
      return go(At::metadata_text);
    }
    return tensor_key(name);
  }

  bool end_array() override {
    if (at_ == At::offset_items && offsets_ != 2)
      return fail(in_tensor("has fewer than two numbers in data_offsets"));
    return go(At::tensor);
  }
  bool end_object() override {
    if (at_ == At::tensor) {
      if (!has_dtype_) return fail(in_tensor("has no dtype"));
      if (!has_shape_) return fail(in_tensor("has no shape"));
      if (!has_offsets_) return fail(in_tensor("has no data_offsets"));
      contents_.tensors.push_back(std::move(tensor_));
    }
    return go(at_ == At::top ? At::end : At::top);
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& failure) override {
    // The library's own words follow a tag, "[json.exception...] ", and a position, "parse error at ...: ".
    std::string_view words = failure.what();
    if (const std::size_t tag = words.find("] "); tag != std::string_view::npos) words.remove_prefix(tag + 2);
    if (words.starts_with("parse error at ")) words.remove_prefix(words.find(": ") + 2);
    return fail(fmt::format("the header is not JSON at byte {}: {}", position, printable(words)));
  }

 private:
  enum class At {
    start,
    top,           // between tensors
    tensor_value,  // after a tensor's name
    tensor,        // inside its object
    dtype,         // after each of its keys
    shape,
    shape_items,
    offsets,
    offset_items,
    metadata_value,  // after __metadata__
    metadata,
    metadata_text,  // after a key in there
    end,
  };

  bool go(At next) {
    at_ = next;
    return true;
  }
  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  std::string in_tensor(std::string_view problem) const {
    return fmt::format("tensor '{}' {}", printable(tensor_.name), problem);
  }
  static std::string twice(std::string_view where, std::string_view key) {
    return fmt::format("{} the key '{}' twice", where, printable(key));
  }

  bool top_key(std::string& name) {
    if (!names_.insert(name).second) return fail(twice("the header holds", name));
    if (name == "__metadata__") return go(At::metadata_value);
    tensor_ = {};
    tensor_.name = std::move(name);
    has_dtype_ = has_shape_ = has_offsets_ = false;
    offsets_ = 0;
    return go(At::tensor_value);
  }

  bool tensor_key(std::string_view name) {
    bool* const given = name == "dtype"          ? &has_dtype_
                        : name == "shape"        ? &has_shape_
                        : name == "data_offsets" ? &has_offsets_
                                                 : nullptr;
    if (given == nullptr) {
      return fail(in_tensor(
          fmt::format("has a key '{}'; legal keys are dtype, shape and data_offsets", printable(name))));
    }
    if (*given) return fail(in_tensor(twice("holds", name)));
    *given = true;
    return go(given == &has_dtype_ ? At::dtype : given == &has_shape_ ? At::shape : At::offsets);
  }

  bool unexpected(std::string_view given) {
    const std::string what = printable(given);
    switch (at_) {
      case At::tensor_value:
        return fail(in_tensor(fmt::format("is {}, not an object of dtype, shape and data_offsets", what)));
      case At::dtype:
        return fail(in_tensor(fmt::format("has {} for a dtype; a dtype is a string", what)));
      case At::shape:
        return fail(in_tensor(fmt::format("has {} for a shape; a shape is an array", what)));
      case At::shape_items:
        return fail(
            in_tensor(fmt::format("has {} in its shape; sizes are whole numbers from 0 to 2^63-1", what)));
      case At::offsets:
        return fail(
            in_tensor(fmt::format("has {} for data_offsets, which is an array of two numbers", what)));
      case At::offset_items:
        return fail(in_tensor(
            fmt::format("has {} in data_offsets; offsets are whole numbers from 0 to 2^64-1", what)));
      case At::metadata_value:
        return fail(fmt::format("__metadata__ is {}, not an object of strings", what));
      case At::metadata_text:
        return fail(fmt::format("__metadata__ holds {} under '{}', where only strings are legal", what,
                                printable(metadata_key_)));
      default:
        return fail(fmt::format("the header is {}, not a JSON object", what));
    }
  }

  SafetensorsContents& contents_;
  std::string problem_;
  At at_ = At::start;
  std::unordered_set<std::string> names_;
  std::string metadata_key_;
  SafetensorsTensor tensor_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int offsets_ = 0;
};

}  // namespace

std::string read_safetensors_header(std::string_view text, SafetensorsContents& contents) {
  // The JSON library skips a byte order mark and takes a NUL byte for the end; the format allows neither.
  if (!text.starts_with('{')) return "the header does not begin with '{': this is not a safetensors file";
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return fmt::format("the header holds a NUL byte at {}", nul);
  }
  HeaderReader reader(contents);
  const bool read = json::sax_parse(text.begin(), text.end(), &reader);
  if (read) return {};
  return reader.problem().empty() ? "the header is not JSON" : reader.problem();
}

}  // namespace samebits::io
