// Where a block's tensors come from: seeds, or a checkpoint's layer. Loaded once, shared by all ranks as
// views.
#pragma once

#include <cstdint>
#include <string>

#include "samebits/checkpoint.hpp"
#include "samebits/layout.hpp"
#include "samebits/safetensors.hpp"
#include "samebits/seeded.hpp"
#include "shared/host_tensor.hpp"

namespace samebits::tools {

// gate, up and down of a seed, as if a checkpoint held them.
LayerWeights seeded_weights(const Shape& shape, std::uint64_t seed, int threads);

// x or dy, [tokens, H].
HostTensor seeded_tokens(SeededTensor tensor, const Shape& shape, std::int64_t tokens, std::uint64_t seed,
                         int threads);

// A person's x or dy from a file, bf16 [tokens, hidden]: leading axes are flattened, F16 and F32 rounded to
// nearest even.
struct TokensFromFile {
  HostMatrix matrix;
  std::string conversion;  // empty: the file's own bits
};
TokensFromFile read_tokens(const SafetensorsFile& file, const std::string& name, std::int64_t hidden);

}  // namespace samebits::tools
