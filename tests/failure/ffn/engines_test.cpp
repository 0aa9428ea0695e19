// An engine that this machine or build lacks is an error of the environment that says what is missing.
#include "support/engines.hpp"

#include <gtest/gtest.h>

#include <string>

#include "samebits/error.hpp"

namespace samebits::test {
namespace {

std::string environment_error(int device) {
  try {
    make_cuda_engine({device});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::environment) << error.what();
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "device " << device << " was found";
  return {};
}

TEST(Engines, ADeviceThatIsNotThere) {
  for (const int device : {-1, 99}) {
    const std::string message = environment_error(device);
    if (cuda_problem().empty()) {
      EXPECT_NE(message.find(std::to_string(device)), std::string::npos) << message;
    }
  }
}

TEST(Engines, NoCudaAtAll) {
  if (cuda_problem().empty()) GTEST_SKIP() << "this machine has a CUDA device";
  const std::string message = environment_error(0);
  EXPECT_TRUE(message.find("CUDA") != std::string::npos || message.find("cuda") != std::string::npos)
      << message;
}

// What is found agrees with what can be made.
TEST(Engines, TheStatusSaysWhatIsThere) {
  const CudaStatus status = cuda_status();
  EXPECT_EQ(status.problem.find('\n'), std::string::npos) << status.problem;
  if (!status.built) {
    EXPECT_TRUE(status.runtime.empty() && status.devices.empty());
  }
  if (status.problem.empty()) {
    EXPECT_NO_THROW(cuda_engine());
  }
  for (const CudaDevice& device : status.devices) {
    if (device.major != 9 || device.minor != 0) environment_error(device.index);
  }
}

}  // namespace
}  // namespace samebits::test
