#include "errors.hpp"

#include <exception>
#include <string>

#include "samebits/error.hpp"

namespace samebits::python {
namespace {

namespace nb = nanobind;

// Live as long as the process.
struct Exceptions {
  PyObject* refused = nullptr;
  PyObject* environment = nullptr;
  PyObject* rank = nullptr;
};
Exceptions exceptions;

PyObject* exception_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::bad_file:
      return PyExc_ValueError;
    case ErrorCode::refused:
      return exceptions.refused;
    case ErrorCode::disagreement:
    case ErrorCode::lost_rank:
      return exceptions.rank;
    case ErrorCode::environment:
      return exceptions.environment;
    case ErrorCode::out_of_memory:
      return PyExc_MemoryError;
    case ErrorCode::internal:
      break;
  }
  return PyExc_RuntimeError;
}

PyObject* make(nb::module_& module, const char* name, const char* doc, PyObject* base) {
  const std::string full = std::string("samebits.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, base, nullptr);
  if (type == nullptr) throw nb::python_error();
  module.attr(name) = nb::handle(type);
  return type;
}

}  // namespace

void bind_errors(nb::module_& module) {
  exceptions.refused =
      make(module, "Refused", "Legal, but not under this contract, layout or device. A ValueError.",
           PyExc_ValueError);
  exceptions.environment =
      make(module, "EnvironmentProblem",
           "What the machine lacks: a device, a driver, a library. A RuntimeError.", PyExc_RuntimeError);
  exceptions.rank =
      make(module, "RankError",
           "Ranks were given different things, or another rank died, failed or stalled. A RuntimeError.",
           PyExc_RuntimeError);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      PyErr_SetString(exception_of(error.code()), error.what());
    }
  });
}

}  // namespace samebits::python
