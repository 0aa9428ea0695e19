// What a rank does that fails: it tells the others, who would wait for it otherwise; `give_up` comes after
// that. After that the transport is of no more use. So what every rank finds for itself, from the same
// things, is told to nobody: ranks that all refused may go on with another plan.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <new>

#include "samebits/error.hpp"
#include "samebits/transport.hpp"

namespace samebits::ffn {

// An error that every rank throws.
class SharedError : public Error {
 public:
  using Error::Error;
};

// For what depends on nothing but what the ranks have compared. What a machine lacks is not shared.
template <class Body>
void refuse_together(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument && error.code() != ErrorCode::refused) throw;
    throw SharedError(error.code(), error.what());
  }
}

inline void tell_failure(Transport* transport, const char* what) {
  if (transport == nullptr || transport->size() == 1) return;
  transport->abort(fmt::format("rank {} failed: {}", transport->rank(), what));
}

template <class Body, class GiveUp>
void or_abort(Transport* transport, const Body& body, const GiveUp& give_up) {
  try {
    body();
  } catch (const SharedError&) {
    give_up();
    throw;
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
