// The HIP engine of a build without HIP: it says so.
#include "engine/engine.hpp"
#include "samebits/error.hpp"

namespace samebits {

std::shared_ptr<engine::Engine> make_hip_engine(const HipEngineOptions&) {
  throw Error(ErrorCode::environment,
              "this build has no hip engine: build where ROCm or clang-19 with HIP's headers is found (cmake "
              "-DSAMEBITS_HIP=ON)");
}

HipStatus hip_status() {
  HipStatus status;
  status.problem = "not built";
  return status;
}

}  // namespace samebits
