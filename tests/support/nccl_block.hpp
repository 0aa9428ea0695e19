// The block on one rank of a layout, seeded, and a check of the collectives: what the tests of the NCCL
// transport run over it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "samebits/layout.hpp"
#include "samebits/transport.hpp"

namespace samebits::test {

// y, dX and the weight gradients of the transport's rank, one behind the other; inputs are the same in every
// process.
std::vector<std::uint16_t> rank_results(const Layout& layout, std::shared_ptr<Transport> transport);

// The same of every rank, over local_transports.
std::vector<std::vector<std::uint16_t>> local_results(const Layout& layout);

// Uneven, even, one-sided and empty messages of every rank to every rank, up to `most` bytes, each byte
// checked; throws Error(internal) where another came.
void check_collectives(Transport& transport, std::size_t round, std::size_t most);

}  // namespace samebits::test
