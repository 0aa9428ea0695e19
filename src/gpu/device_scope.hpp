// A device that is current for the length of a scope: the null stream is the current device's.
#pragma once

#include "gpu/runtime.hpp"

namespace samebits::SAMEBITS_GPU_NAMES {

class DeviceScope {
 public:
  // What becomes of a device that is the current one already. A thread has no context before it sets a
  // device: whoever calls the driver itself sets it in any case. The runtime's calls make their own: who
  // makes no others leaves it, and saves a call.
  enum class IfCurrent { set, leave };

  explicit DeviceScope(int device, IfCurrent if_current = IfCurrent::set);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
  bool moved_ = false;
};

}  // namespace samebits::SAMEBITS_GPU_NAMES
