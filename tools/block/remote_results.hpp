// Results of ranks that are other processes: they travel to rank 0 tensor by tensor and rank by rank, so that
// rank 0 holds one tensor of one other rank at a time. All go on together, so that nobody waits for rank 0
// inside a collective of devices, where time counts.
#pragma once

#include <memory>

#include "block/result_sink.hpp"
#include "samebits/transport.hpp"

namespace samebits::tools {

// On rank 0 of the group: hands its own tensor in to `results`, then the same one of every other rank.
std::unique_ptr<ResultSink> receiving_sink(std::shared_ptr<Transport> group, ResultSink& results);

// On every other rank of the group.
std::unique_ptr<ResultSink> sending_sink(std::shared_ptr<Transport> group);

}  // namespace samebits::tools
