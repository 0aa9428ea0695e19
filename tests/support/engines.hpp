// The engines of this machine, for tests that run on each of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/engine.hpp"
#include "samebits/contract.hpp"

namespace samebits::test {

enum class EngineKind { cpu, cuda };
inline const char* name_of(EngineKind kind) { return kind == EngineKind::cpu ? "cpu" : "cuda"; }

// Why no CUDA device can be used; empty when one can.
const std::string& cuda_problem();

// The engine on the first Hopper GPU; one for the process, as a program would hold it.
std::shared_ptr<engine::Engine> cuda_engine();

// Whether the engine has the contract's leaf; where it has not, it refuses.
bool runs(EngineKind kind, const Contract& contract);

// The reason to skip a test of this engine on this machine; empty where there is none. With
// SAMEBITS_REQUIRE_CUDA set the test fails instead: a check of a GPU must not pass for want of one.
std::string reason_to_skip(EngineKind kind);

// A suite whose cases run once an engine, and are skipped where this machine lacks it.
class OnEngine : public testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    if (const std::string reason = reason_to_skip(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
  static EngineKind engine() { return GetParam(); }
};

// Of CUDA alone.
class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = reason_to_skip(EngineKind::cuda); !reason.empty()) GTEST_SKIP() << reason;
  }
};

inline auto every_engine() { return testing::Values(EngineKind::cpu, EngineKind::cuda); }
inline std::string engine_name(const testing::TestParamInfo<EngineKind>& info) { return name_of(info.param); }

}  // namespace samebits::test
