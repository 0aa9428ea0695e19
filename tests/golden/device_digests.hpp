// Digests of blocks too large to evaluate literally in a test: recorded on a GPU, reproduced by every engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "samebits/contract.hpp"
#include "samebits/layout.hpp"

namespace samebits::test {

// Tensors of seed 0.
struct DigestCase {
  Contract contract;
  Shape shape;
  std::int64_t tokens = 0;
  bool operator==(const DigestCase&) const = default;
};
std::string name_of(const DigestCase& one);

struct TensorDigest {
  std::string tensor;  // "y", "dx", "d_gate", ..., "d_down_f32"
  std::string digest;
  bool operator==(const TensorDigest&) const = default;
};

struct Recording {
  std::string made_on;  // device, driver, date, one a line
  std::vector<DigestCase> cases;
  std::vector<std::vector<TensorDigest>> digests;  // of each case
};

// What is recorded: the presets that GPUs run, at sizes of whole tiles, parts of tiles and none.
std::vector<DigestCase> cases_to_record();

std::vector<TensorDigest> digests_of(const std::shared_ptr<engine::Engine>& engine, const DigestCase& one);

// One line a digest: contract hidden intermediate tokens tensor digest. Lines that begin with # say where and
// when.
void write_recording(const std::string& path, const Recording& recording);
// No cases where there is no file.
Recording read_recording(const std::string& path);

}  // namespace samebits::test
