#include "gpu/device_scope.hpp"

#include "gpu/check.hpp"

namespace samebits::SAMEBITS_GPU_NAMES {

DeviceScope::DeviceScope(int device, IfCurrent if_current) {
  check(cudaGetDevice(&before_), "asking for the current device");
  if (before_ == device && if_current == IfCurrent::leave) return;
  check(cudaSetDevice(device), "choosing a device");
  moved_ = before_ != device;
}

DeviceScope::~DeviceScope() {
  if (moved_) static_cast<void>(cudaSetDevice(before_));
}

}  // namespace samebits::SAMEBITS_GPU_NAMES
