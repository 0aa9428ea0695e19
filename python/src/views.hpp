// Arrays of Python as views: where they lie, without a copy.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "samebits/view.hpp"

namespace samebits::python {

namespace nb = nanobind;

// The codes of a described array's dtype.
inline constexpr int kBf16 = 0, kF16 = 1, kF32 = 2;

struct Array {
  View view{};
  bool read_only = false;
  nb::object owner{};  // what keeps the memory of an export; the caller keeps the array itself
};

// `array` is one of
//   - a tuple (pointer, rows, cols, row stride, column stride, dtype code, DLPack device type, device index),
//   - an array with __array_interface__ (NumPy), of float32, float16 or ml_dtypes.bfloat16,
//   - an array with __dlpack__ (PyTorch, CuPy, JAX, ...), ready on `stream` where it lies on a device.
// Leading axes become rows where their strides allow it; [n] is 1 x n. TypeError for other objects and
// dtypes, ValueError for axes that do not become rows.
Array array_of(const char* name, nb::handle array, std::uintptr_t stream);

}  // namespace samebits::python
