// A block of seeded tensors that owns its memory.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/reference.hpp"
#include "samebits/seeded.hpp"

namespace samebits::test {

inline std::vector<std::uint16_t> seeded(SeededTensor tensor, std::int64_t rows, std::int64_t cols,
                                         std::uint64_t seed = 0) {
  std::vector<std::uint16_t> out(rows * cols);
  SeededSlice slice;
  slice.seed = seed;
  slice.tensor = tensor;
  slice.row_length = cols;
  if (rows * cols > 0) fill_seeded(host_view(out.data(), rows, cols), slice);
  return out;
}

struct SeededInputs {
  Shape shape;
  std::int64_t tokens = 0;
  std::vector<std::uint16_t> x, dy, gate, up, down;

  SeededInputs(const Shape& of, std::int64_t count, std::uint64_t seed = 0)
      : shape(of),
        tokens(count),
        x(seeded(SeededTensor::x, count, of.hidden, seed)),
        dy(seeded(SeededTensor::dy, count, of.hidden, seed)),
        gate(seeded(SeededTensor::gate, of.intermediate, of.hidden, seed)),
        up(seeded(SeededTensor::up, of.intermediate, of.hidden, seed)),
        down(seeded(SeededTensor::down, of.hidden, of.intermediate, seed)) {}

  reference::Inputs inputs() const {
    return {shape, tokens, x.data(), dy.data(), gate.data(), up.data(), down.data()};
  }
};

}  // namespace samebits::test
