#include "samebits/contract.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "module.hpp"
#include "options.hpp"

namespace samebits::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// {"leaf": "fma", "H": "max:32", ...} of "samebits/1;leaf=fma;H=max:32;...".
nb::dict fields_of(const Contract& contract) {
  nb::dict fields;
  const std::string text = canonical(contract);
  for (std::size_t at = text.find(';'); at != std::string::npos;) {
    const std::size_t end = text.find(';', at + 1);
    const std::string field = text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    const std::size_t equals = field.find('=');
    if (equals != std::string::npos) fields[field.substr(0, equals).c_str()] = field.substr(equals + 1);
    at = end;
  }
  return fields;
}

}  // namespace

void bind_contract(nb::module_& module) {
  nb::class_<Contract>(module, "Contract",
                       "What every bit of a result is. Two contracts are equal where all fields are.")
      .def(
          "__init__",
          [](Contract* self, const ContractOrText& text) { new (self) Contract(contract_of(text)); },
          "text"_a,
          "A preset's name (\"sm90-v1\"), a preset with fields of its own (\"sm90-v1,node=bf16,I=halve:4\"), "
          "or a "
          "canonical string. ValueError names the field that is wrong and what is legal there.")
      .def_prop_ro(
          "name", [](const Contract& self) { return name_of(self); },
          "The preset's name where the contract is one, the canonical string otherwise.")
      .def_prop_ro(
          "canonical", [](const Contract& self) { return canonical(self); },
          "The resolved fields in their one order.")
      .def_prop_ro(
          "fingerprint", [](const Contract& self) { return fingerprint(self); },
          "XXH3-64 of the canonical string, 16 hex digits.")
      .def_prop_ro("fields", &fields_of, nb::sig("def fields(self) -> dict[str, str]"),
                   "The resolved fields by name.")
      .def(nb::self == nb::self)
      .def("__hash__",
           [](const Contract& self) {
             return static_cast<Py_hash_t>(std::hash<std::string>()(canonical(self)) >> 1);
           })
      .def("__str__", [](const Contract& self) { return name_of(self); })
      .def("__repr__", [](const Contract& self) { return "Contract('" + name_of(self) + "')"; })
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(), nb::make_tuple(canonical(nb::cast<const Contract&>(self))));
      });

  module.def(
      "contract_presets",
      [] {
        std::vector<std::string> names;
        for (const std::string_view name : contract_presets()) names.emplace_back(name);
        return names;
      },
      "The names of the presets.");
}

}  // namespace samebits::python
