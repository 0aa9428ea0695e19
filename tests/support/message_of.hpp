// What an error says, for tests of messages.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "samebits/error.hpp"

namespace samebits::test {

// The message of the error that `call` throws; it is one line.
template <class Call>
std::string message_of(ErrorCode code, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline void expect_says(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

}  // namespace samebits::test
