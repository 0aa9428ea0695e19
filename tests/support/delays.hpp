// A transport whose exchanges begin and end late, by random times: an order that only luck kept does not
// hold.
#pragma once

#include <memory>

#include "samebits/transport.hpp"

namespace samebits::test {

std::shared_ptr<Transport> delayed_transport(std::shared_ptr<Transport> transport, std::uint64_t seed,
                                             int most_microseconds);

}  // namespace samebits::test
