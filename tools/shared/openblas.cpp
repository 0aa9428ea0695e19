#include "shared/openblas.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

namespace samebits::tools {

struct OpenBlas::Functions {
  // cblas.h, with the 32-bit integers of libopenblas.so.0.
  using Gemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a,
                        int lda, const float* b, int ldb, float beta, float* c, int ldc);
  void* library = nullptr;
  Gemm gemm = nullptr;
  void (*set_num_threads)(int) = nullptr;
  char* (*get_config)() = nullptr;
  char* (*get_corename)() = nullptr;
};

namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

constexpr const char* kLibrary = "libopenblas.so.0";
constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";

// The core that OpenBLAS should use here, when the one it chose has no kernels for the vectors that there
// are.
const char* better_core([[maybe_unused]] const std::string& chosen) {
#if defined(__x86_64__)
  for (const char* old : {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Sandybridge", "Generic",
                          "generic", "Unknown"}) {
    if (chosen != old) continue;
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (wide) return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
  }
#endif
  return nullptr;
}

constexpr int kRowMajor = 101, kNotTransposed = 111, kTransposed = 112;

}  // namespace

std::unique_ptr<OpenBlas> OpenBlas::load() {
  auto functions = std::make_unique<Functions>();
  functions->library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (functions->library == nullptr) return nullptr;
  const bool complete = find(functions->library, "cblas_sgemm", functions->gemm) &&
                        find(functions->library, "openblas_set_num_threads", functions->set_num_threads) &&
                        find(functions->library, "openblas_get_config", functions->get_config) &&
                        find(functions->library, "openblas_get_corename", functions->get_corename);
  if (!complete) return nullptr;
  return std::unique_ptr<OpenBlas>(new OpenBlas(std::move(functions)));
}

std::unique_ptr<OpenBlas> OpenBlas::load_for_this_processor() {
  auto blas = load();
  if (!blas || std::getenv(kCoreVariable) != nullptr) return blas;
  const std::string own_core = blas->core();
  const char* const core = better_core(own_core);
  if (core == nullptr) return blas;
  blas.reset();
  setenv(kCoreVariable, core, 1);  // read by the library as it is loaded
  blas = load();
  unsetenv(kCoreVariable);
  if (blas) blas->own_core_ = own_core;
  return blas;
}

OpenBlas::OpenBlas(std::unique_ptr<Functions> functions)
    : functions_(std::move(functions)), own_core_(functions_->get_corename()) {}
OpenBlas::~OpenBlas() {
  // What has computed stays: its threads would be left without code.
  if (!computed_) dlclose(functions_->library);
}

std::string OpenBlas::config() const { return functions_->get_config(); }
std::string OpenBlas::core() const { return functions_->get_corename(); }
void OpenBlas::set_threads(int threads) { functions_->set_num_threads(threads); }

void OpenBlas::multiply(std::int64_t m, std::int64_t n, std::int64_t k, Operand a, Operand b, float* c,
                        bool add) const {
  computed_ = true;
  const auto flag = [](const Operand& operand) { return operand.transposed ? kTransposed : kNotTransposed; };
  functions_->gemm(kRowMajor, flag(a), flag(b), static_cast<int>(m), static_cast<int>(n), static_cast<int>(k),
                   1.0f, a.data, static_cast<int>(a.row_length), b.data, static_cast<int>(b.row_length),
                   add ? 1.0f : 0.0f, c, static_cast<int>(n));
}

}  // namespace samebits::tools
