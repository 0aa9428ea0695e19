// A library with what the command wants of OpenBLAS. By itself it takes every processor for an old one. Told
// its core by the environment, it says so, and beside how many other threads it was loaded. In plain C: what
// templates of the standard library leave in it may keep it from being unloaded.
#include <dirent.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

int other_threads() {
  int threads = -1;
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return threads;
  while (const dirent* const entry = readdir(tasks)) threads += entry->d_name[0] != '.';
  closedir(tasks);
  return threads;
}

char core[128] = "Prescott";

// Chosen as the library is loaded, like the core of the true one.
[[gnu::constructor]] void choose_core() {
  if (const char* const told = std::getenv("OPENBLAS_CORETYPE"))
    std::snprintf(core, sizeof core, "%s told beside %d other threads", told, other_threads());
}

// An element of what is multiplied, which lies row by row.
float element(const float* a, int row_length, bool transposed, std::int64_t row, std::int64_t column) {
  return transposed ? a[column * row_length + row] : a[row * row_length + column];
}

}  // namespace

extern "C" {

void cblas_sgemm(int /*order*/, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a,
                 int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  constexpr int kTransposed = 112;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int at = 0; at < k; ++at)
        sum +=
            element(a, lda, trans_a == kTransposed, i, at) * element(b, ldb, trans_b == kTransposed, at, j);
      float& to = c[static_cast<std::int64_t>(i) * ldc + j];
      to = alpha * sum + (beta > 0 ? beta * to : 0);
    }
  }
}

void openblas_set_num_threads(int) {}
char* openblas_get_config() { return core; }
char* openblas_get_corename() { return core; }

}  // extern "C"
