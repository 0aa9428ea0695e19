#include "block/tensors.hpp"

#include "samebits/compare.hpp"
#include "samebits/digest.hpp"
#include "shared/parallel.hpp"

namespace samebits::tools {

PerTensor<std::string> digests_of(const BlockTensors& tensors, int threads) {
  PerTensor<std::string> digests;
  parallel_parts(threads, kBlockTensors, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) digests[i] = digest(tensors.view(static_cast<BlockTensor>(i)));
  });
  return digests;
}

std::int64_t count_differing(const ConstView& a, const ConstView& b) { return compare(a, b).differing; }

}  // namespace samebits::tools
