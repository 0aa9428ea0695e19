// The arrays of one call: what is read, what is written, and that no two are the same memory by mistake.
#pragma once

#include <cstdint>
#include <vector>

#include "samebits/view.hpp"
#include "views.hpp"

namespace samebits::python {

// Python gives streams as integers.
Queue queue_of(std::uintptr_t stream);

class Operands {
 public:
  // `stream`: where arrays on devices are to be ready.
  explicit Operands(std::uintptr_t stream) : stream_(stream) { entries_.reserve(16); }

  // None is an empty view.
  ConstView in(const char* name, nb::handle array);
  // ValueError for an array that may not be written. `also` is a second legal dtype.
  View out(const char* name, nb::handle array, DType also = DType::bf16);

  // ValueError where something that is written shares memory with something else of the call.
  void refuse_overlap() const;

  // An operand has a dtype that the block does not take: the library's refusal is then a TypeError.
  bool wrong_dtype() const;

 private:
  struct Entry {
    const char* name;
    ConstView view;
    bool written;
    DType also;
    nb::object owner;
  };
  std::uintptr_t stream_;
  std::vector<Entry> entries_;
};

}  // namespace samebits::python
