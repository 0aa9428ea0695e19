// The runtime's answers as errors; no GPU is needed for that.
#include "gpu/check.hpp"

#include <gtest/gtest.h>

#include <string>

#include "samebits/error.hpp"

namespace samebits {
namespace {

using namespace SAMEBITS_GPU_NAMES;

void expect_error(cudaError_t answer, ErrorCode code) {
  try {
    check(answer, "trying this");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(error.what(), std::string("trying this: ") + kRuntimeName + " answers " +
                                cudaGetErrorName(answer) + " (" + cudaGetErrorString(answer) + ")");
  }
}

TEST(Check, SaysWhatWasTriedAndWhatTheRuntimeAnswered) {
  EXPECT_NO_THROW(check(cudaSuccess, "trying this"));
  expect_error(cudaErrorMemoryAllocation, ErrorCode::out_of_memory);
  expect_error(cudaErrorNotReady, ErrorCode::environment);
}

}  // namespace
}  // namespace samebits
