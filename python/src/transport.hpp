// A transport as Python holds it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "samebits/transport.hpp"

namespace samebits::python {

struct HeldTransport {
  std::shared_ptr<Transport> transport;
};

// Made of Python's functions.
struct CallbackTransport : HeldTransport {};

// Tells the other ranks that this one cannot go on; the GIL is free meanwhile.
void tell_others(Transport* transport, const char* what);

}  // namespace samebits::python
