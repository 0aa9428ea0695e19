// A graph replayed by the ranks of a layout together, a GPU each, and timed on each of them.
#pragma once

#include <memory>

#include "bench/cuda_resources.hpp"
#include "samebits/transport.hpp"

namespace samebits::tools {

class CudaReplay {
 public:
  // `host` and `device` move memory between the ranks of the layout; of one rank `device` is null.
  CudaReplay(std::shared_ptr<Transport> host, std::shared_ptr<Transport> device, cudaStream_t stream);

  // Collective over the layout. Begins on all its GPUs within the skew of one small collective: when all
  // ranks have come, each holds its stream until it has enqueued everything, so that no launch shows in the
  // time.
  double microseconds(cudaGraphExec_t graph);

  // Collective over the layout: the largest of what its ranks pass.
  double most(double mine) const;

 private:
  std::shared_ptr<Transport> host_, device_;
  cudaStream_t stream_;
  CudaEvent begin_, end_;
  CudaMemory meeting_;  // a byte a rank
};

}  // namespace samebits::tools
