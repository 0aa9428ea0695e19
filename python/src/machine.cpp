// What this build and this machine have.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "module.hpp"
#include "samebits/engine.hpp"

namespace samebits::python {

namespace nb = nanobind;

namespace {

nb::dict as_dict(const GpuStatus& status) {
  nb::list devices;
  for (const GpuDevice& device : status.devices) {
    nb::dict one;
    one["index"] = device.index;
    one["name"] = device.name;
    one["kind"] = device.kind;
    one["compute_capability"] = nb::make_tuple(device.major, device.minor);
    one["memory_bytes"] = device.memory_bytes;
    devices.append(one);
  }
  nb::dict out;
  out["built"] = status.built;
  out["runtime"] = status.runtime;
  out["driver"] = status.driver;
  out["problem"] = status.problem;
  out["devices"] = devices;
  return out;
}

}  // namespace

void bind_machine(nb::module_& module) {
  module.def(
      "cuda_status", [] { return as_dict(cuda_status()); }, nb::sig("def cuda_status() -> dict[str, object]"),
      "What the CUDA engine finds: built, runtime, driver, problem (empty when a device can be used), "
      "devices.");
  module.def(
      "hip_status", [] { return as_dict(hip_status()); }, nb::sig("def hip_status() -> dict[str, object]"),
      "The same of the HIP engine.");
  module.def("best_isa", &best_isa_name, "\"avx512\", \"avx2\" or \"plain\": what the CPU engine runs here.");
}

}  // namespace samebits::python
