// Memory of a plan, taken once from its engine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.hpp"

namespace samebits::ffn {

// rows * cols * size, or Error(invalid_argument) where that passes 63 bits.
std::size_t checked_bytes(std::int64_t rows, std::int64_t cols, std::size_t size);

class Workspace {
 public:
  explicit Workspace(engine::Engine& engine) : engine_(engine) {}

  void* take(std::size_t bytes);
  // For whoever holds it, also after the plan: counted by count() where it is kept.
  std::shared_ptr<void> share(std::size_t bytes) { return {engine_.allocate(bytes)}; }
  void count(std::size_t bytes) { bytes_ += bytes; }
  View matrix(std::int64_t rows, std::int64_t cols, DType dtype = DType::bf16);
  std::size_t bytes() const { return bytes_; }

 private:
  engine::Engine& engine_;
  std::vector<engine::Memory> memory_;
  std::size_t bytes_ = 0;
};

// The first rows * cols elements of a buffer, as a packed matrix.
View packed(const View& buffer, std::int64_t rows, std::int64_t cols);

}  // namespace samebits::ffn
