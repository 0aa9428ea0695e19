// cuBLASLt, loaded at run time, so that the command needs none to be built or to run; and one product of it.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/cuda_resources.hpp"

namespace samebits::tools {

class CublasLt {
 public:
  struct Functions;

  // Null when there is none.
  static std::unique_ptr<CublasLt> load();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  std::string version() const;  // "13.1.0"
  const Functions& functions() const { return *functions_; }
  cublasLtHandle_t handle() const { return handle_; }
  void* workspace() const { return workspace_.get(); }

  static constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

 private:
  explicit CublasLt(std::unique_ptr<Functions> functions);

  std::unique_ptr<Functions> functions_;
  cublasLtHandle_t handle_ = nullptr;
  CudaMemory workspace_;
};

// Row-major, packed, bf16, added in f32: c [m, n] = (or, with `add`, +=) a [m, k] * b [k, n].
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false;  // a lies as [k, m]
  bool b_transposed = false;  // b lies as [n, k]
  bool add = false;
};

struct ProductOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
};

// The fastest of the algorithms that the library proposes, timed on the operands that it will serve.
class Product {
 public:
  // `rotation`: operands of consecutive calls, so that what is timed is not the cache.
  Product(const CublasLt& blas, const ProductShape& shape, const std::vector<ProductOperands>& rotation,
          cudaStream_t stream);

  void run(const ProductOperands& operands, cudaStream_t stream) const;
  int candidates() const { return candidates_; }  // that were timed

 private:
  struct Release {
    const CublasLt::Functions* functions;
    void operator()(cublasLtMatmulDesc_t description) const;
    void operator()(cublasLtMatrixLayout_t layout) const;
    void operator()(cublasLtMatmulPreference_t preference) const;
  };
  template <class Opaque>
  using Owned = std::unique_ptr<Opaque, Release>;

  Owned<cublasLtMatrixLayoutOpaque_t> layout(std::int64_t rows, std::int64_t cols) const;
  std::vector<cublasLtMatmulHeuristicResult_t> proposals() const;
  void enqueue(const cublasLtMatmulAlgo_t& algorithm, const ProductOperands& operands,
               cudaStream_t stream) const;
  void choose(const std::vector<ProductOperands>& rotation, cudaStream_t stream);

  const CublasLt& blas_;
  float beta_;
  Owned<cublasLtMatmulDescOpaque_t> description_;
  Owned<cublasLtMatrixLayoutOpaque_t> left_, right_, result_;  // as the library sees them: columns first
  cublasLtMatmulAlgo_t algorithm_{};
  int candidates_ = 0;
};

}  // namespace samebits::tools
