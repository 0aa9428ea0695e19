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

}  // namespace

const std::string& cuda_problem() {
  static const std::string problem = cuda_status().problem;
  return problem;
}

std::shared_ptr<engine::Engine> cuda_engine() {
  static const std::shared_ptr<engine::Engine> engine = make_cuda_engine({first_hopper()});
  return engine;
}

bool runs(EngineKind kind, const Contract& contract) {
  return kind == EngineKind::cpu || contract.leaf != Leaf::gfx942;
}

bool cuda_is_required() { return std::getenv("SAMEBITS_REQUIRE_CUDA") != nullptr; }

}  // namespace samebits::test
