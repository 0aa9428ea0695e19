// IEEE arithmetic for the length of a scope: nearest rounding, subnormals kept, no traps, whatever another
// library has set in this thread. What was set is put back.
#pragma once

#include <cfenv>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace samebits::engine {

class FpEnvironment {
 public:
  FpEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
#if defined(__x86_64__)
    control_ = _mm_getcsr();
    _mm_setcsr(0x1F80);  // also clears flush-to-zero and denormals-are-zero, which <cfenv> need not know
#endif
  }
  ~FpEnvironment() {
#if defined(__x86_64__)
    _mm_setcsr(control_);
#endif
    std::fesetenv(&saved_);
  }
  FpEnvironment(const FpEnvironment&) = delete;
  FpEnvironment& operator=(const FpEnvironment&) = delete;

 private:
  std::fenv_t saved_{};
#if defined(__x86_64__)
  unsigned control_ = 0;
#endif
};

}  // namespace samebits::engine
