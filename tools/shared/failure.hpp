// How the command ends when it cannot go on: one line on stderr and an exit code.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "samebits/error.hpp"

namespace samebits::tools {

enum ExitCode { kHeld = 0, kMismatch = 1, kUsage = 2, kEnvironment = 3 };

ExitCode exit_code_of(ErrorCode code);

// Whatever was thrown, as the error that a person is told.
Error error_of(const std::exception_ptr& thrown);

// "samebits: <message>", on one line whatever the message holds.
void print_failure(std::string_view message);

// Runs `body`; whatever it throws becomes a line and an exit code.
int guarded(const std::function<int()>& body);

[[noreturn]] void fail_usage(const std::string& message);
[[noreturn]] void fail_environment(const std::string& message);

}  // namespace samebits::tools
