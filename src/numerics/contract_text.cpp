#include "numerics/contract_text.hpp"

#include <charconv>
#include <iterator>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "numerics/tree.hpp"

namespace samebits::numerics {
namespace {

constexpr std::string_view kMagic = "samebits/1";
constexpr std::int64_t kLargestLeaf = std::int64_t{1} << 40;

template <class Value>
struct Word {
  std::string_view text;
  Value value;
};

constexpr Word<Rule> kRules[] = {{"max", Rule::max}, {"halve", Rule::halve}, {"block", Rule::block}};
constexpr Word<Precision> kPrecisions[] = {{"bf16", Precision::bf16}, {"f32", Precision::f32}};
constexpr Word<Swiglu> kSwiglus[] = {{"one", Swiglu::one}, {"two", Swiglu::two}};
constexpr Word<Sigma> kSigmas[] = {{"exact", Sigma::exact}, {"cuda", Sigma::cuda}};

template <class Value, std::size_t N>
bool read_word(const Word<Value> (&words)[N], std::string_view text, Value& value) {
  for (const auto& word : words) {
    if (word.text == text) {
      value = word.value;
      return true;
    }
  }
  return false;
}

template <class Value, std::size_t N>
constexpr std::string_view text_of(const Word<Value> (&words)[N], Value value) {
  for (const auto& word : words) {
    if (word.value == value) return word.text;
  }
  return "?";
}

bool read_leaf(std::string_view text, Leaf& leaf) {
  for (const LeafLine& line : kLeafTable) {
    if (line.name == text) {
      leaf = line.leaf;
      return true;
    }
  }
  return false;
}

bool read_rule(std::string_view text, AxisRule& rule) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || !read_word(kRules, text.substr(0, colon), rule.rule)) return false;
  const std::string_view digits = text.substr(colon + 1);
  if (digits.empty() || digits.front() == '-') return false;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), rule.value);
  return failure == std::errc{} && end == digits.data() + digits.size();
}

// The part of `text` before `separator`, which is removed from `text` with it.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t position = text.find(separator);
  const std::string_view part = text.substr(0, position);
  text = position == std::string_view::npos ? std::string_view{} : text.substr(position + 1);
  return part;
}

enum Field { kLeaf, kHidden, kIntermediate, kTokens, kNode, kLanes, kSwiglu, kSigma, kFields };
constexpr std::string_view kFieldNames[kFields] = {"leaf", "H", "I", "T", "node", "lanes", "swiglu", "sigma"};

constexpr const char* kAxisProblem = "an axis rule is max:L, halve:D or block:B, with a whole number";

const char* read_value(Field field, std::string_view value, Contract& contract) {
  switch (field) {
    case kLeaf:
      return read_leaf(value, contract.leaf) ? nullptr : "leaf is fma, sm90 or gfx942";
    case kHidden:
      return read_rule(value, contract.hidden) ? nullptr : kAxisProblem;
    case kIntermediate:
      return read_rule(value, contract.intermediate) ? nullptr : kAxisProblem;
    case kTokens:
      return read_rule(value, contract.tokens) ? nullptr : kAxisProblem;
    case kNode:
      return read_word(kPrecisions, value, contract.node) ? nullptr : "node is bf16 or f32";
    case kLanes:
      return read_word(kPrecisions, value, contract.lanes) ? nullptr : "lanes is bf16 or f32";
    case kSwiglu:
      return read_word(kSwiglus, value, contract.swiglu) ? nullptr : "swiglu is one or two";
    case kSigma:
      return read_word(kSigmas, value, contract.sigma) ? nullptr : "sigma is exact or cuda";
    case kFields:
      break;
  }
  return "legal fields are leaf, H, I, T, node, lanes, swiglu and sigma";
}

// Reads `field=value` parts; `given` remembers which fields stood there, so that none stands twice.
ContractProblem read_fields(std::string_view text, char separator, Contract& contract,
                            bool (&given)[kFields]) {
  while (!text.empty()) {
    const std::string_view part = take(text, separator);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return {part, "a field is written name=value"};
    int field = 0;
    while (field < kFields && kFieldNames[field] != part.substr(0, equals)) ++field;
    if (field < kFields && given[field]) return {part, "the field is given twice"};
    if (const char* problem = read_value(static_cast<Field>(field), part.substr(equals + 1), contract))
      return {part, problem};
    given[field] = true;
  }
  return {};
}

// What no single field shows: leaves must hold whole granules.
ContractProblem check_rules(const Contract& contract) {
  const std::int64_t granule = granule_of(contract.leaf);
  const AxisRule rules[] = {contract.hidden, contract.intermediate, contract.tokens};
  for (int axis = 0; axis < 3; ++axis) {
    const std::string_view name = kFieldNames[kHidden + axis];
    const AxisRule rule = rules[axis];
    if (rule.rule == Rule::halve) {
      if (rule.value > 40) return {name, "halve:D takes D from 0 to 40"};
      continue;
    }
    if (rule.value > kLargestLeaf) return {name, "a leaf holds at most 2^40 elements"};
    if (rule.value < granule) {
      return {name, granule == 1 ? "a leaf holds at least 1 element"
                                 : "a leaf of this arithmetic holds at least 16 elements"};
    }
    if (rule.rule == Rule::block && rule.value % granule != 0)
      return {name, "block:B takes a multiple of 16 with this leaf"};
  }
  return {};
}

void append(ContractText& out, std::string_view text) {
  for (const char c : text) {
    if (out.size + 1 < sizeof out.text) out.text[out.size++] = c;
  }
}

void append_rule(ContractText& out, std::string_view name, const AxisRule& rule) {
  append(out, name);
  append(out, to_text(rule.rule));
  append(out, ":");
  char digits[24];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), rule.value).ptr;
  append(out, {digits, static_cast<std::size_t>(end - digits)});
}

}  // namespace

ContractProblem parse_contract_text(std::string_view text, Contract& contract) {
  bool given[kFields] = {};
  ContractProblem problem;
  if (!text.empty() && (text.back() == ',' || text.back() == ';')) {
    return {text.substr(text.size() - 1), "a field is written name=value, and none follows here"};
  }
  if (text.substr(0, kMagic.size()) == kMagic) {
    std::string_view rest = text;
    if (take(rest, ';') != kMagic) return {text.substr(0, 16), "the canonical string begins samebits/1;"};
    problem = read_fields(rest, ';', contract, given);
    if (problem.problem != nullptr) return problem;
    for (int field = 0; field < kFields; ++field) {
      if (!given[field]) return {kFieldNames[field], "the canonical string lacks this field"};
    }
  } else {
    std::string_view rest = text;
    const std::string_view name = take(rest, ',');
    bool known = false;
    for (const Preset& preset : kPresets) {
      if (preset.name != name) continue;
      contract = preset.contract;
      known = true;
    }
    if (!known) {
      return {name,
              "no such contract; presets are bf16-tree-v1, f32-tree-v1, sm90-v1, hf-sm90-v1 and gfx942-v1"};
    }
    problem = read_fields(rest, ',', contract, given);
    if (problem.problem != nullptr) return problem;
  }
  if (contract.node == Precision::bf16) contract.lanes = Precision::bf16;  // such roots are bf16 already
  return check_rules(contract);
}

ContractText canonical_text(const Contract& contract) {
  ContractText out;
  append(out, kMagic);
  append(out, ";leaf=");
  append(out, to_text(contract.leaf));
  append_rule(out, ";H=", contract.hidden);
  append_rule(out, ";I=", contract.intermediate);
  append_rule(out, ";T=", contract.tokens);
  append(out, ";node=");
  append(out, text_of(kPrecisions, contract.node));
  append(out, ";lanes=");
  append(out, text_of(kPrecisions, contract.lanes));
  append(out, ";swiglu=");
  append(out, text_of(kSwiglus, contract.swiglu));
  append(out, ";sigma=");
  append(out, text_of(kSigmas, contract.sigma));
  return out;
}

std::uint64_t fingerprint_of(std::string_view canonical) {
  return XXH3_64bits(canonical.data(), canonical.size());
}

std::string_view to_text(Leaf leaf) { return line_of(leaf).name; }
std::string_view to_text(Rule rule) { return text_of(kRules, rule); }

}  // namespace samebits::numerics
