// The engines of this machine, for tests that run on each of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/engine.hpp"
#include "samebits/contract.hpp"

namespace samebits::test {

enum class EngineKind { cpu, cuda, hip };
inline const char* name_of(EngineKind kind) {
  return kind == EngineKind::cpu ? "cpu" : kind == EngineKind::cuda ? "cuda" : "hip";
}

// Why no CUDA device can be used; empty when one can.
const std::string& cuda_problem();

// The engine on the first Hopper GPU; one for the process, as a program would hold it.
std::shared_ptr<engine::Engine> cuda_engine();

// The same of HIP, on the first MI300.
const std::string& hip_problem();
std::shared_ptr<engine::Engine> hip_engine();

// Of cuda or hip.
std::shared_ptr<engine::Engine> device_engine(EngineKind kind);

// Whether the engine has the contract's leaf; where it has not, it refuses.
bool runs(EngineKind kind, const Contract& contract);

// SAMEBITS_REQUIRE_CUDA, SAMEBITS_REQUIRE_HIP: a check of a GPU must not pass for want of one.
bool cuda_is_required();
bool hip_is_required();

// Ends a SetUp where this machine lacks the engine.
#define SAMEBITS_SKIP_WITHOUT(kind)                                                    \
  do {                                                                                 \
    if ((kind) == EngineKind::cpu) break;                                              \
    if ((kind) == EngineKind::hip) {                                                   \
      if (hip_problem().empty()) break;                                                \
      if (hip_is_required()) FAIL() << "a HIP device is required: " << hip_problem();  \
      GTEST_SKIP() << "no usable HIP device: " << hip_problem();                       \
    }                                                                                  \
    if (cuda_problem().empty()) break;                                                 \
    if (cuda_is_required()) FAIL() << "a CUDA device is required: " << cuda_problem(); \
    GTEST_SKIP() << "no usable CUDA device: " << cuda_problem();                       \
  } while (false)

// A suite whose cases run once an engine, and are skipped where this machine lacks it.
class OnEngine : public testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override { SAMEBITS_SKIP_WITHOUT(GetParam()); }
  static EngineKind engine() { return GetParam(); }
};

// Of CUDA alone.
class OnCuda : public testing::Test {
 protected:
  void SetUp() override { SAMEBITS_SKIP_WITHOUT(EngineKind::cuda); }
};

inline auto every_engine() { return testing::Values(EngineKind::cpu, EngineKind::cuda, EngineKind::hip); }
inline std::string engine_name(const testing::TestParamInfo<EngineKind>& info) { return name_of(info.param); }

}  // namespace samebits::test
