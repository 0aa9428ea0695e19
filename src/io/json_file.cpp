#include "io/json_file.hpp"

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "io/mapped_file.hpp"
#include "io/message.hpp"

namespace samebits::io {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;
constexpr std::size_t kLongestFile = 256u << 20;

// Sees every event of the parser before the document is built, and stops it by throwing.
class Checker {
 public:
  explicit Checker(std::string_view path) : path_(path) {}

  bool operator()(int depth, json::parse_event_t event, const json& value) {
    if (depth > kDeepest) fail_file(path_, fmt::format("nests deeper than {} levels", kDeepest));
    if (event == json::parse_event_t::object_start) {
      keys_.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second)
        fail_file(path_, fmt::format("holds the key '{}' twice", printable(key)));
    }
    return true;
  }

 private:
  std::string_view path_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

}  // namespace

json read_json_object(const std::string& path) {
  const MappedFile file(path);
  const std::string_view text = file.text();
  if (text.size() > kLongestFile)
    fail_file(path, fmt::format("is {} bytes long, too much for a description", text.size()));
  if (text.find('\0') != std::string_view::npos) fail_file(path, "is not JSON: it holds a NUL byte");
  try {
    json document = json::parse(text.begin(), text.end(), Checker(path));
    if (!document.is_object())
      fail_file(path, fmt::format("is a JSON {}, not an object", document.type_name()));
    return document;
  } catch (const json::exception& failure) {
    const std::string_view words = failure.what();
    const std::size_t tag = words.find("] ");
    fail_file(path, fmt::format("is not JSON: {}",
                                printable(tag == std::string_view::npos ? words : words.substr(tag + 2))));
  }
}

}  // namespace samebits::io
