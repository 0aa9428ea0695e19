// Checks that see errors which all layouts share: rows alone against the batch, golden digests, and samples
// of the block recomputed by the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "block/layout_run.hpp"
#include "block/tensors.hpp"
#include "compute/compute_flags.hpp"

namespace samebits::tools {

struct RowCheck {
  std::int64_t rows = 0;
  std::int64_t output = 0;    // differing elements of y
  std::int64_t d_hidden = 0;  // and of dx
};

// Up to eight rows of x, each alone at M = 1, against the rows of the batch.
RowCheck check_rows(const Compute& compute, const BlockCase& block, const BlockTensors& exact);

struct BatchCheck {
  std::int64_t tokens = 0;
  std::int64_t output = 0;    // differing elements of y
  std::int64_t d_hidden = 0;  // and of dx
};

// The first rows of x as batches of their own, each in a plan made for it, against the same rows of the whole
// batch.
std::vector<BatchCheck> check_batches(const Compute& compute, const BlockCase& block,
                                      const BlockTensors& exact, const std::vector<std::int64_t>& batches);

struct GoldenCheck {
  struct Tensor {
    std::string name, expected, digest;
  };
  std::vector<Tensor> tensors;
  bool has_digests = false;  // whether the contract is in the table
  int differing() const;
};

// Known results through the same engine: single elements that contraction or flushed subnormals would change,
// and the tiny block of docs/numerics.md section 8 when the contract is in its table.
GoldenCheck check_golden(const Compute& compute);

struct ReferenceCheck {
  struct Tensor {
    std::string name;
    std::int64_t samples = 0;
    std::int64_t differing = 0;
  };
  std::int64_t token = 0;
  std::vector<std::int64_t> rows;  // of I
  std::vector<Tensor> tensors;
  std::int64_t differing() const;
};

// One token's y and dx, and some rows of the weight gradients, evaluated literally. Empty when there are no
// tokens.
std::optional<ReferenceCheck> check_reference(const Compute& compute, const BlockCase& block,
                                              const BlockTensors& exact);

}  // namespace samebits::tools
