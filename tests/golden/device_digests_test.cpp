// Every engine of this machine against what an H200 computed.
#include "golden/device_digests.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/engines.hpp"

namespace samebits::test {
namespace {

class DeviceDigests : public OnEngine {
 protected:
  void SetUp() override {
    OnEngine::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    recording_ = read_recording(SAMEBITS_RECORDING);
    if (recording_.cases.empty()) {
      GTEST_SKIP() << "no recording: nothing was compared. On a machine with an H200: "
                      "build/tests/golden/record_digests tests/golden/h200_digests.txt";
    }
  }
  Recording recording_;
};
INSTANTIATE_TEST_SUITE_P(, DeviceDigests, every_engine(), engine_name);

TEST_P(DeviceDigests, EveryEngineReproducesTheRecording) {
  const std::shared_ptr<engine::Engine> made =
      engine() == EngineKind::cpu ? make_cpu_engine() : device_engine(engine());
  for (std::size_t c = 0; c < recording_.cases.size(); ++c) {
    const std::vector<TensorDigest> got = digests_of(made, recording_.cases[c]);
    const std::string what = name_of(recording_.cases[c]) + ", recorded on\n" + recording_.made_on;
    ASSERT_EQ(got.size(), recording_.digests[c].size()) << what;
    for (std::size_t t = 0; t < got.size(); ++t) {
      EXPECT_EQ(got[t].tensor, recording_.digests[c][t].tensor) << what;
      EXPECT_EQ(got[t].digest, recording_.digests[c][t].digest) << got[t].tensor << " of " << what;
    }
  }
}

// A preset whose tree numbers were changed is recorded anew.
TEST_P(DeviceDigests, EveryCaseIsRecorded) {
  for (const DigestCase& one : cases_to_record()) {
    EXPECT_NE(std::find(recording_.cases.begin(), recording_.cases.end(), one), recording_.cases.end())
        << name_of(one) << " is not in the recording: record it again";
  }
}

// A digest of another block is another: the check can fail.
TEST_P(DeviceDigests, DigestsDiffer) {
  for (std::size_t c = 1; c < recording_.cases.size(); ++c)
    EXPECT_NE(recording_.digests[c], recording_.digests[c - 1]) << name_of(recording_.cases[c]);
}

}  // namespace
}  // namespace samebits::test
