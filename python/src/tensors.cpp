// Digests, comparisons and seeded values of arrays in host memory.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "module.hpp"
#include "operands.hpp"
#include "samebits/compare.hpp"
#include "samebits/digest.hpp"
#include "samebits/error.hpp"
#include "samebits/seeded.hpp"

namespace samebits::python {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

std::string digest_of(nb::handle array) {
  const Array given = array_of("the tensor to digest", array, 0);
  const nb::gil_scoped_release release;
  return digest(given.view);
}

TensorDifference compare_arrays(nb::handle a, nb::handle b, bool any_nan_equal) {
  const Array first = array_of("the first tensor to compare", a, 0);
  const Array second = array_of("the second tensor to compare", b, 0);
  const nb::gil_scoped_release release;
  return compare(first.view, second.view, {.any_nan_equal = any_nan_equal});
}

SeededTensor seeded_tensor(const std::string& word) {
  if (word == "x") return SeededTensor::x;
  if (word == "gate") return SeededTensor::gate;
  if (word == "up") return SeededTensor::up;
  if (word == "down") return SeededTensor::down;
  if (word == "dy") return SeededTensor::dy;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the seeded tensor '{}' is unknown; there are x, gate, up, down and dy", word));
}

void fill(nb::handle out, const std::string& tensor, std::uint64_t seed, std::int64_t row_length,
          std::int64_t first_row, std::int64_t first_col) {
  Operands operands(0);
  const View view = operands.out("out", out);
  SeededSlice slice;
  slice.seed = seed;
  slice.tensor = seeded_tensor(tensor);
  slice.row_length = row_length;
  slice.first_row = first_row;
  slice.first_col = first_col;
  if (operands.wrong_dtype()) throw nb::type_error("out holds seeded values, which are bfloat16");
  const nb::gil_scoped_release release;
  fill_seeded(view, slice);
}

}  // namespace

void bind_tensors(nb::module_& module) {
  module.def("digest", &digest_of, "array"_a.none(), "128 bits of a host array, 32 hex digits.");
  module.def("compare", &compare_arrays, "a"_a.none(), "b"_a.none(), nb::kw_only(), "any_nan_equal"_a = false,
             "How two host arrays of one shape and dtype differ.");
  module.def(
      "fill_seeded", &fill, "out"_a.none(), "tensor"_a, "seed"_a, "row_length"_a, "first_row"_a = 0,
      "first_col"_a = 0,
      "Fills a bfloat16 host array with a slice of a seeded tensor, whose rows have row_length columns.");

  nb::class_<TensorDifference>(module, "Difference", "How two arrays differ, bit by bit.")
      .def_prop_ro("equal", &TensorDifference::equal, "All bits are the same.")
      .def_ro("elements", &TensorDifference::elements, "Elements compared.")
      .def_ro("differing", &TensorDifference::differing, "Elements with other bits.")
      .def_prop_ro(
          "first",
          [](const TensorDifference& self) -> nb::object {
            if (self.equal()) return nb::none();
            return nb::make_tuple(self.row, self.col);
          },
          nb::sig("def first(self) -> tuple[int, int] | None"),
          "(row, column) of the first that differs, row by row.")
      .def_prop_ro(
          "first_bits",
          [](const TensorDifference& self) -> nb::object {
            if (self.equal()) return nb::none();
            return nb::make_tuple(self.a_bits, self.b_bits);
          },
          nb::sig("def first_bits(self) -> tuple[int, int] | None"), "The bits there, of a and of b.")
      .def_ro("max_ulps", &TensorDifference::max_ulps,
              "Largest distance, in representable values passed on the way; +0 and -0 are one value.")
      .def_ro("nan_against_number", &TensorDifference::nan_against_number)
      .def_ro("nan_against_nan", &TensorDifference::nan_against_nan, "Pairs of NaNs with other bits.")
      .def("__str__", [](const TensorDifference& self) { return describe(self); })
      .def("__repr__", [](const TensorDifference& self) { return fmt::format("<{}>", describe(self)); });
}

}  // namespace samebits::python
