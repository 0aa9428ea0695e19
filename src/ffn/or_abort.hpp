// What a rank does that fails: it tells the others, who would wait for it otherwise; `give_up` comes after
// that.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <new>

#include "samebits/error.hpp"
#include "samebits/transport.hpp"

namespace samebits::ffn {

inline void tell_failure(Transport* transport, const char* what) {
  if (transport == nullptr || transport->size() == 1) return;
  transport->abort(fmt::format("rank {} failed: {}", transport->rank(), what));
}

template <class Body, class GiveUp>
void or_abort(Transport* transport, const Body& body, const GiveUp& give_up) {
  try {
    body();
  } catch (const std::bad_alloc&) {
    tell_failure(transport, "out of memory");
    give_up();
    throw Error(ErrorCode::out_of_memory, "out of host memory");
  } catch (const std::exception& error) {
    tell_failure(transport, error.what());
    give_up();
    throw;
  } catch (...) {
    tell_failure(transport, "an exception that is no std::exception");
    give_up();
    throw;
  }
}

}  // namespace samebits::ffn
