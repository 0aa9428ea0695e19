#include "bench/cuda_blas.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "samebits/error.hpp"

namespace samebits::tools {

struct CublasLt::Functions {
  void* library = nullptr;  // stays loaded: kernels of it may still be on the device
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) description_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) description_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) description_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
};

namespace {

constexpr int kProposals = 16;

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// Where the loader looks, then where the toolkit of this build had it.
void* open_library() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUDART_VERSION / 1000);
  for (const std::string& path : {name, std::string(SAMEBITS_CUDA_LIBRARIES "/") + name}) {
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

void check_blas(cublasStatus_t status, const char* tried) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorCode::environment,
              fmt::format("{}: cuBLASLt answers status {}", tried, static_cast<int>(status)));
}

}  // namespace

std::unique_ptr<CublasLt> CublasLt::load() {
  auto f = std::make_unique<Functions>();
  f->library = open_library();
  if (f->library == nullptr) return nullptr;
  const bool complete =
      find(f->library, "cublasLtCreate", f->create) && find(f->library, "cublasLtDestroy", f->destroy) &&
      find(f->library, "cublasLtGetVersion", f->version) && find(f->library, "cublasLtMatmul", f->matmul) &&
      find(f->library, "cublasLtMatmulAlgoGetHeuristic", f->heuristic) &&
      find(f->library, "cublasLtMatmulDescCreate", f->description_create) &&
      find(f->library, "cublasLtMatmulDescDestroy", f->description_destroy) &&
      find(f->library, "cublasLtMatmulDescSetAttribute", f->description_set) &&
      find(f->library, "cublasLtMatrixLayoutCreate", f->layout_create) &&
      find(f->library, "cublasLtMatrixLayoutDestroy", f->layout_destroy) &&
      find(f->library, "cublasLtMatmulPreferenceCreate", f->preference_create) &&
      find(f->library, "cublasLtMatmulPreferenceDestroy", f->preference_destroy) &&
      find(f->library, "cublasLtMatmulPreferenceSetAttribute", f->preference_set);
  if (!complete) return nullptr;
  return std::unique_ptr<CublasLt>(new CublasLt(std::move(f)));
}

CublasLt::CublasLt(std::unique_ptr<Functions> functions)
    : functions_(std::move(functions)), workspace_(make_memory(kWorkspaceBytes)) {
  check_blas(functions_->create(&handle_), "making a handle");
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) functions_->destroy(handle_);
}

std::string CublasLt::version() const {
  const std::size_t version = functions_->version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void Product::Release::operator()(cublasLtMatmulDesc_t description) const {
  functions->description_destroy(description);
}
void Product::Release::operator()(cublasLtMatrixLayout_t layout) const { functions->layout_destroy(layout); }
void Product::Release::operator()(cublasLtMatmulPreference_t preference) const {
  functions->preference_destroy(preference);
}

// The library counts along columns, so it is asked for the transpose: c^T = b^T a^T.
Product::Product(const CublasLt& blas, const ProductShape& shape,
                 const std::vector<ProductOperands>& rotation, cudaStream_t stream)
    : blas_(blas),
      beta_(shape.add ? 1.0f : 0.0f),
      description_(nullptr, Release{&blas.functions()}),
      left_(shape.b_transposed ? layout(shape.k, shape.n) : layout(shape.n, shape.k)),
      right_(shape.a_transposed ? layout(shape.m, shape.k) : layout(shape.k, shape.m)),
      result_(layout(shape.n, shape.m)) {
  cublasLtMatmulDesc_t description = nullptr;
  check_blas(blas.functions().description_create(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "describing a product");
  description_.reset(description);
  const auto transpose = [&](cublasLtMatmulDescAttributes_t which, bool transposed) {
    const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_blas(blas.functions().description_set(description, which, &operation, sizeof operation),
               "describing a product");
  };
  transpose(CUBLASLT_MATMUL_DESC_TRANSA, shape.b_transposed);
  transpose(CUBLASLT_MATMUL_DESC_TRANSB, shape.a_transposed);
  choose(rotation, stream);
}

Product::Owned<cublasLtMatrixLayoutOpaque_t> Product::layout(std::int64_t rows, std::int64_t cols) const {
  cublasLtMatrixLayout_t made = nullptr;
  check_blas(blas_.functions().layout_create(&made, CUDA_R_16BF, static_cast<std::uint64_t>(rows),
                                             static_cast<std::uint64_t>(cols), rows),
             "describing a matrix");
  return {made, Release{&blas_.functions()}};
}

std::vector<cublasLtMatmulHeuristicResult_t> Product::proposals() const {
  cublasLtMatmulPreference_t made = nullptr;
  check_blas(blas_.functions().preference_create(&made), "asking for algorithms");
  const Owned<cublasLtMatmulPreferenceOpaque_t> preference(made, Release{&blas_.functions()});
  const std::size_t most = CublasLt::kWorkspaceBytes;
  check_blas(
      blas_.functions().preference_set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
      "asking for algorithms");
  std::vector<cublasLtMatmulHeuristicResult_t> found(kProposals);
  int count = 0;
  check_blas(
      blas_.functions().heuristic(blas_.handle(), description_.get(), left_.get(), right_.get(),
                                  result_.get(), result_.get(), made, kProposals, found.data(), &count),
      "asking for algorithms");
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

void Product::choose(const std::vector<ProductOperands>& rotation, cudaStream_t stream) {
  constexpr int kReplays = 4;
  ReplayTimer timer(stream);
  double best = std::numeric_limits<double>::infinity();
  for (const auto& proposal : proposals()) {
    double fastest = std::numeric_limits<double>::infinity();
    try {
      enqueue(proposal.algo, rotation.front(), stream);  // what is loaded at first use is loaded here
      check(cudaStreamSynchronize(stream), "trying an algorithm");
      const CudaGraph graph = capture(stream, [&] {
        for (const ProductOperands& operands : rotation) enqueue(proposal.algo, operands, stream);
      });
      for (int replay = 0; replay < kReplays; ++replay) {
        fastest = std::min(fastest, timer.microseconds(graph.get()));
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::environment) throw;
      check(cudaStreamSynchronize(stream),
            "leaving an algorithm that cannot run");  // a sticky error ends it all
      continue;
    }
    ++candidates_;
    if (fastest >= best) continue;
    best = fastest;
    algorithm_ = proposal.algo;
  }
  if (candidates_ == 0)
    throw Error(ErrorCode::environment, "cuBLASLt has no algorithm for a product of the block");
}

void Product::enqueue(const cublasLtMatmulAlgo_t& algorithm, const ProductOperands& operands,
                      cudaStream_t stream) const {
  const float alpha = 1.0f;
  check_blas(blas_.functions().matmul(blas_.handle(), description_.get(), &alpha, operands.b, left_.get(),
                                      operands.a, right_.get(), &beta_, operands.c, result_.get(), operands.c,
                                      result_.get(), &algorithm, blas_.workspace(), CublasLt::kWorkspaceBytes,
                                      stream),
             "a product");
}

void Product::run(const ProductOperands& operands, cudaStream_t stream) const {
  enqueue(algorithm_, operands, stream);
}

}  // namespace samebits::tools
