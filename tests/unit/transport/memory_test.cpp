// The kinds of memory that a build moves: no GPU is needed to ask.
#include "transport/memory.hpp"

#include <gtest/gtest.h>

namespace samebits::transport {
namespace {

TEST(Memory, TheDeviceMemoryOfTheBuildIsReachedAndHasAWayToTheHost) {
  EXPECT_TRUE(can_reach(MemorySpace::host));
  EXPECT_EQ(make_host_link(MemorySpace::host, 1), nullptr);
  for (const MemorySpace space : {MemorySpace::cuda, MemorySpace::hip}) {
    EXPECT_EQ(can_reach(space), space == device_space());
    EXPECT_EQ(make_host_link(space, 1) != nullptr, can_reach(space));
  }
}

}  // namespace
}  // namespace samebits::transport
