// A matrix in an engine's memory, between guards: what tests hand to a plan.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/engine.hpp"

namespace samebits::test {

// Elements between the rows, and between an aligned address and the first element.
struct Placement {
  std::int64_t padding = 0;
  std::int64_t shift = 0;
};

class Matrix {
 public:
  // All of it, guards and elements, is filled with a NaN that no result holds: what a stage reads beyond its
  // operand spoils its result, what it writes beyond it or leaves unwritten shows.
  Matrix(engine::Engine& engine, std::int64_t rows, std::int64_t cols, DType dtype, Placement placement = {});

  const View& view() const { return view_; }
  std::int64_t rows() const { return view_.rows; }
  std::int64_t cols() const { return view_.cols; }

  void write(const void* packed, Queue queue = {});
  void poison(Queue queue = {});

  // The elements, packed. Waits for the queue.
  template <class T>
  std::vector<T> read(Queue queue = {}) const {
    std::vector<T> out(static_cast<std::size_t>(view_.elements()));
    read_packed(out.data(), queue);
    return out;
  }
  // Whether every byte outside the elements is as it was.
  bool guards_hold(Queue queue = {}) const;

 private:
  void read_packed(void* out, Queue queue) const;
  View whole() const;  // all bytes, as one row

  engine::Engine& engine_;
  std::size_t bytes_;
  engine::Memory memory_;
  View view_;
};

}  // namespace samebits::test
