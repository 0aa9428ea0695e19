#include "operands.hpp"

#include <fmt/format.h>

#include "overlap.hpp"

namespace samebits::python {

Queue queue_of(std::uintptr_t stream) {
  return {reinterpret_cast<void*>(stream)};  // NOLINT(performance-no-int-to-ptr): a handle, never followed
}

ConstView Operands::in(const char* name, nb::handle array) {
  if (array.is_none()) return {};
  Array given = array_of(name, array, stream_);
  entries_.push_back({name, given.view, false, DType::bf16, std::move(given.owner)});
  return given.view;
}

View Operands::out(const char* name, nb::handle array, DType also) {
  if (array.is_none()) return {};
  Array given = array_of(name, array, stream_);
  if (given.read_only) throw nb::value_error(fmt::format("{} is read-only, and is written to", name).c_str());
  if (repeats_elements(given.view)) {
    throw nb::value_error(
        fmt::format("{} is written to, and has elements that share memory (a broadcast array)", name)
            .c_str());
  }
  entries_.push_back({name, given.view, true, also, std::move(given.owner)});
  return given.view;
}

void Operands::refuse_overlap() const {
  for (const Entry& out : entries_) {
    if (!out.written) continue;
    for (const Entry& other : entries_) {
      if (&other == &out || !share_memory(out.view, other.view)) continue;
      throw nb::value_error(
          fmt::format("{} shares memory with {}: what is written lies apart from all else of a call",
                      out.name, other.name)
              .c_str());
    }
  }
}

bool Operands::wrong_dtype() const {
  for (const Entry& entry : entries_) {
    if (entry.view.dtype != DType::bf16 && entry.view.dtype != entry.also) return true;
  }
  return false;
}

}  // namespace samebits::python
