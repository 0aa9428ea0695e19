#include "support/engines.hpp"

#include <cstdlib>

namespace samebits::test {
namespace {

int first_hopper() {
  for (const CudaDevice& device : cuda_status().devices) {
    if (device.major == 9 && device.minor == 0) return device.index;
  }
  return 0;
}

int first_mi300() {
  for (const HipDevice& device : hip_status().devices) {
    if (device.kind == "gfx942") return device.index;
  }
  return 0;
}

}  // namespace

const std::string& cuda_problem() {
  static const std::string problem = cuda_status().problem;
  return problem;
}

std::shared_ptr<engine::Engine> cuda_engine() {
  static const std::shared_ptr<engine::Engine> engine = make_cuda_engine({first_hopper()});
  return engine;
}

const std::string& hip_problem() {
  static const std::string problem = hip_status().problem;
  return problem;
}

std::shared_ptr<engine::Engine> hip_engine() {
  static const std::shared_ptr<engine::Engine> engine = make_hip_engine({first_mi300()});
  return engine;
}

std::shared_ptr<engine::Engine> device_engine(EngineKind kind) {
  return kind == EngineKind::hip ? hip_engine() : cuda_engine();
}

bool runs(EngineKind kind, const Contract& contract) {
  if (kind == EngineKind::cpu || contract.leaf == Leaf::fma) return true;
  return contract.leaf == (kind == EngineKind::cuda ? Leaf::sm90 : Leaf::gfx942);
}

bool cuda_is_required() { return std::getenv("SAMEBITS_REQUIRE_CUDA") != nullptr; }
bool hip_is_required() { return std::getenv("SAMEBITS_REQUIRE_HIP") != nullptr; }

}  // namespace samebits::test
