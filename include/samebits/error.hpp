// Every failure of the library is a samebits::Error: a code for programs, a one-line message for people.
#pragma once

#include <stdexcept>
#include <string>

#include "samebits/export.hpp"

namespace samebits {

enum class ErrorCode {
  invalid_argument,  // a call that is wrong whatever the machine: a bad flag, shape, view or contract text
  bad_file,          // a file that cannot be read, is not what it claims, or cannot be written
  refused,           // legal, but not under this contract, layout or device
  disagreement,      // ranks that were given different contracts, shapes, layouts or versions
  environment,       // what the machine lacks: a device, a library, a file system that answers
  out_of_memory,
  lost_rank,  // another rank died, failed or stalled
  internal,   // a bug in samebits
};

class SAMEBITS_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace samebits
