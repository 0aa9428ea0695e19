#include "world/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "io/message.hpp"

namespace samebits::tools {
namespace {

// Neither names nor values hold a zero: they come from the command line.
std::string text_of(const std::vector<AgreedField>& fields) {
  std::string text;
  for (const AgreedField& field : fields) text += field.name + '\0' + field.value + '\0';
  return text;
}

std::vector<AgreedField> fields_of(const std::string& text) {
  std::vector<AgreedField> fields;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t name_end = text.find('\0', at), value_end = text.find('\0', name_end + 1);
    fields.push_back({text.substr(at, name_end - at), text.substr(name_end + 1, value_end - name_end - 1)});
    at = value_end + 1;
  }
  return fields;
}

}  // namespace

void agree(const World& world, const std::vector<AgreedField>& fields) {
  const std::vector<std::string> texts = world.gather(text_of(fields));
  const std::vector<AgreedField> first = fields_of(texts.front());
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    const std::vector<AgreedField> other = fields_of(texts[rank]);
    for (std::size_t i = 0; i < std::min(first.size(), other.size()); ++i) {
      if (first[i].name == other[i].name && first[i].value == other[i].value) continue;
      throw KnownToAll(ErrorCode::disagreement,
                       fmt::format("rank {} has {} {}, rank 0 has {}", rank, other[i].name,
                                   io::printable(other[i].value), io::printable(first[i].value)));
    }
  }
}

}  // namespace samebits::tools
