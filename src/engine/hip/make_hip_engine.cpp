// The HIP engine by its public names.
#include "engine/hip/namespace.hpp"
//
#include "engine/cuda/find_devices.hpp"

namespace samebits {

std::shared_ptr<engine::Engine> make_hip_engine(const HipEngineOptions& options) {
  return engine::hip::make_engine(options.device);
}

HipStatus hip_status() { return engine::hip::find_devices(); }

}  // namespace samebits
