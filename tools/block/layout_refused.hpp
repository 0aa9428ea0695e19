// A layout that this shape, contract, choice of flags or number of processes does not allow.
#pragma once

#include "samebits/error.hpp"

namespace samebits::tools {

class LayoutRefused : public Error {
 public:
  using Error::Error;
};

// Runs what every rank of a layout does alike. Most layouts that are not allowed are known when the plan is
// made; a token shard that cuts inside a leaf, where covers of the gradients must be exchanged, is known when
// it is called.
template <class Body>
auto allowed(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::refused && error.code() != ErrorCode::invalid_argument) throw;
    throw LayoutRefused(error.code(), error.what());
  }
}

}  // namespace samebits::tools
