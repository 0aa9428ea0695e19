// Whether two matrices share memory, for the cases that a caller comes to by mistake.
#pragma once

#include "samebits/view.hpp"

namespace samebits::python {

// True where an element lies in both: known for matrices of like strides (slices of one matrix) and for dense
// ones. Other pairs are held to share memory only if they begin at the same address.
bool share_memory(const ConstView& one, const ConstView& other);

// Two elements at one address: a broadcast array.
bool repeats_elements(const ConstView& view);

}  // namespace samebits::python
