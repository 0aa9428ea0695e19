// Failures are part of the interface: a code for programs, one line for people, naming the culprit.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "samebits/error.hpp"

namespace samebits::test {

template <class Call>
void expect_error(ErrorCode code, std::initializer_list<std::string_view> named, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << message;
    for (const char c : message) {
      EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20) << "more than one printable line: " << message;
    }
    for (const std::string_view name : named) {
      EXPECT_NE(message.find(name), std::string::npos) << "'" << name << "' is not named in: " << message;
    }
    return;
  }
  ADD_FAILURE() << "no error was thrown";
}

template <class Call>
void expect_bad_file(std::initializer_list<std::string_view> named, const Call& call) {
  expect_error(ErrorCode::bad_file, named, call);
}

}  // namespace samebits::test
