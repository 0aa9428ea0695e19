// The extension module samebits._core: the C++ library for Python, names and all.
#include "module.hpp"

#include "errors.hpp"
#include "samebits/version.hpp"
#include "views.hpp"

NB_MODULE(_core, module) {
  namespace python = samebits::python;
  nanobind::set_leak_warnings(false);  // plans that somebody keeps until the end are no leak
  module.attr("__version__") = samebits::kVersion;
  module.attr("BF16") = python::kBf16;
  module.attr("F16") = python::kF16;
  module.attr("F32") = python::kF32;
  python::bind_errors(module);
  python::bind_contract(module);
  python::bind_transport(module);
  python::bind_plan(module);
  python::bind_accumulator(module);
  python::bind_tensors(module);
  python::bind_machine(module);
}
