// OpenBLAS, where this machine has it: loaded at run time, so that the command needs none to be built or to
// run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace samebits::tools {

class OpenBlas {
 public:
  // As it comes; null when there is none.
  static std::unique_ptr<OpenBlas> load();

  // With kernels that fit this processor. A release older than the processor falls back to kernels of 2004,
  // which would be no baseline: it is then loaded again and told its core, unless OPENBLAS_CORETYPE already
  // does. To be called before any other thread runs, those of MPI included: it is told by the environment,
  // which others read.
  static std::unique_ptr<OpenBlas> load_for_this_processor();

  ~OpenBlas();
  OpenBlas(const OpenBlas&) = delete;
  OpenBlas& operator=(const OpenBlas&) = delete;

  std::string config() const;  // "OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY SkylakeX MAX_THREADS=64"
  std::string core() const;    // "SkylakeX"
  const std::string& own_core() const { return own_core_; }  // what it chose by itself
  void set_threads(int threads);

  struct Operand {
    const float* data;
    std::int64_t row_length;  // as it lies in memory
    bool transposed;
  };
  // c [m, n] = (or, with `add`, +=) a [m, k] * b [k, n], row-major.
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, Operand a, Operand b, float* c,
                bool add) const;

 private:
  struct Functions;
  explicit OpenBlas(std::unique_ptr<Functions> functions);
  std::unique_ptr<Functions> functions_;
  std::string own_core_;
  mutable bool computed_ = false;
};

}  // namespace samebits::tools
