// The parts of the extension module; each is bound in the file of its name.
#pragma once

#include <nanobind/nanobind.h>

namespace samebits::python {

void bind_contract(nanobind::module_& module);
void bind_transport(nanobind::module_& module);
void bind_plan(nanobind::module_& module);
void bind_accumulator(nanobind::module_& module);
void bind_tensors(nanobind::module_& module);
void bind_machine(nanobind::module_& module);

}  // namespace samebits::python
