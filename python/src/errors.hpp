// The library's errors as Python's exceptions.
#pragma once

#include <nanobind/nanobind.h>

namespace samebits::python {

void bind_errors(nanobind::module_& module);

}  // namespace samebits::python
