#include "golden/device_digests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "samebits/digest.hpp"
#include "samebits/seeded.hpp"
#include "support/engine_plan.hpp"

namespace samebits::test {
namespace {

constexpr std::uint64_t kSeed = 0;

std::vector<std::uint16_t> seeded(SeededTensor tensor, std::int64_t rows, std::int64_t cols) {
  std::vector<std::uint16_t> data(static_cast<std::size_t>(rows * cols));
  fill_seeded(host_view(data.data(), rows, cols), {kSeed, tensor, cols, 0, 0});
  return data;
}

BlockInputs inputs_of(const DigestCase& one) {
  const std::int64_t h = one.shape.hidden, i = one.shape.intermediate;
  return {one.shape,
          one.tokens,
          seeded(SeededTensor::x, one.tokens, h),
          seeded(SeededTensor::dy, one.tokens, h),
          seeded(SeededTensor::gate, i, h),
          seeded(SeededTensor::up, i, h),
          seeded(SeededTensor::down, h, i)};
}

template <class T>
TensorDigest digest_of(const char* name, const std::vector<T>& data, std::int64_t rows, std::int64_t cols) {
  constexpr DType dtype = sizeof(T) == 4 ? DType::f32 : DType::bf16;
  return {name, digest(host_view(static_cast<const void*>(data.data()), rows, cols, dtype))};
}

}  // namespace

std::string name_of(const DigestCase& one) {
  return fmt::format("{} {} {} {}", canonical(one.contract), one.shape.hidden, one.shape.intermediate,
                     one.tokens);
}

std::vector<DigestCase> cases_to_record() {
  std::vector<DigestCase> cases;
  for (const char* contract : {"bf16-tree-v1", "f32-tree-v1", "sm90-v1", "hf-sm90-v1"}) {
    for (const auto& [shape, tokens] :
         {std::pair{Shape{64, 208}, 77}, std::pair{Shape{53, 91}, 33}, std::pair{Shape{320, 960}, 65},
          std::pair{Shape{512, 1536}, 77}, std::pair{Shape{1024, 3072}, 130}}) {
      cases.push_back({parse_contract(contract), shape, tokens});
    }
  }
  return cases;
}

std::vector<TensorDigest> digests_of(const std::shared_ptr<engine::Engine>& engine, const DigestCase& one) {
  const BlockInputs in = inputs_of(one);
  const std::int64_t h = one.shape.hidden, i = one.shape.intermediate;
  std::vector<TensorDigest> digests;
  for (const bool f32 : {false, true}) {
    EnginePlan block(engine, {one.contract, {}, f32}, in);
    block.run(one.tokens);
    const BlockOutputs out = block.outputs();
    if (f32) {
      digests.push_back(digest_of("d_gate_f32", out.d_gate_f32, i, h));
      digests.push_back(digest_of("d_up_f32", out.d_up_f32, i, h));
      digests.push_back(digest_of("d_down_f32", out.d_down_f32, h, i));
      continue;
    }
    digests.push_back(digest_of("y", out.y, one.tokens, h));
    digests.push_back(digest_of("dx", out.dx, one.tokens, h));
    digests.push_back(digest_of("d_gate", out.d_gate, i, h));
    digests.push_back(digest_of("d_up", out.d_up, i, h));
    digests.push_back(digest_of("d_down", out.d_down, h, i));
  }
  return digests;
}

void write_recording(const std::string& path, const Recording& recording) {
  const std::string partial = path + ".partial";
  {
    std::ofstream out(partial);
    std::istringstream lines(recording.made_on);
    for (std::string line; std::getline(lines, line);) out << "# " << line << '\n';
    for (std::size_t c = 0; c < recording.cases.size(); ++c) {
      for (const TensorDigest& one : recording.digests[c])
        out << name_of(recording.cases[c]) << ' ' << one.tensor << ' ' << one.digest << '\n';
    }
    if (!out.flush()) throw std::runtime_error("cannot write " + partial);
  }
  std::filesystem::rename(partial, path);
}

Recording read_recording(const std::string& path) {
  Recording recording;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    if (line[0] == '#') {
      recording.made_on += line.substr(std::min<std::size_t>(2, line.size())) + '\n';
      continue;
    }
    std::istringstream words(line);
    std::string contract;
    DigestCase one;
    TensorDigest digest;
    words >> contract >> one.shape.hidden >> one.shape.intermediate >> one.tokens >> digest.tensor >>
        digest.digest;
    if (!words) throw std::runtime_error(path + " holds a line of another kind: " + line);
    one.contract = parse_contract(contract);
    if (recording.cases.empty() || !(recording.cases.back() == one)) {
      recording.cases.push_back(one);
      recording.digests.emplace_back();
    }
    recording.digests.back().push_back(digest);
  }
  return recording;
}

}  // namespace samebits::test
