// Eight lanes of AVX2 and FMA. Included by kernels_avx2.cpp alone.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace samebits::engine::cpu {

struct Avx2 {
  static constexpr int kLanes = 8;
  static constexpr int kPanelRows = 6;  // 12 accumulators of the 16 registers
  static constexpr int kPanelVectors = 2;
  using F = __m256;
  using I = __m256i;
  using M = __m256i;
  using D = __m256d;  // half of the lanes

  static F zero() { return _mm256_setzero_ps(); }
  static F set(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static F broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }

  static I set(std::int32_t x) { return _mm256_set1_epi32(x); }
  static I load(const std::int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void store(std::int32_t* p, I x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }
  static I broadcast(const std::int32_t* p) { return _mm256_set1_epi32(*p); }
  static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  static I sub(I a, I b) { return _mm256_sub_epi32(a, b); }
  static I max(I a, I b) { return _mm256_max_epi32(a, b); }
  static I min(I a, I b) { return _mm256_min_epi32(a, b); }
  static I bit_and(I a, I b) { return _mm256_and_si256(a, b); }
  static I bit_or(I a, I b) { return _mm256_or_si256(a, b); }
  template <int N>
  static I left(I a) {
    return _mm256_slli_epi32(a, N);
  }
  template <int N>
  static I right(I a) {
    return _mm256_srli_epi32(a, N);
  }
  static I arithmetic_right(I a, I count) { return _mm256_srav_epi32(a, count); }  // counts from 0 to 31

  static I as_int(F x) { return _mm256_castps_si256(x); }
  static F as_float(I x) { return _mm256_castsi256_ps(x); }
  static I truncate(F x) { return _mm256_cvttps_epi32(x); }
  static F to_float(I x) { return _mm256_cvtepi32_ps(x); }

  static M equal(I a, I b) { return _mm256_cmpeq_epi32(a, b); }
  static M greater(I a, I b) { return _mm256_cmpgt_epi32(a, b); }
  static M either(M a, M b) { return _mm256_or_si256(a, b); }
  static bool any(M m) { return _mm256_testz_si256(m, m) == 0; }
  static F select(M m, F yes, F no) { return _mm256_blendv_ps(no, yes, as_float(m)); }
  static I select(M m, I yes, I no) { return _mm256_blendv_epi8(no, yes, m); }

  // The f32 value of bf16(x). NaNs stay NaNs: theirs have zeros in the low half, so the carry stops there.
  static F round_bf16(F x) {
    const I u = as_int(x);
    const I odd = bit_and(right<16>(u), set(1));
    return as_float(bit_and(add(add(u, set(0x7FFF)), odd), set(static_cast<std::int32_t>(0xFFFF0000))));
  }
  static F load_bf16(const std::uint16_t* p) {
    return as_float(left<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))));
  }
  // bf16(x) with the canonical NaN.
  static void store_bf16(std::uint16_t* p, F x) {
    const I nan = as_int(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const I rounded = select(nan, set(0x7FC0), right<16>(as_int(round_bf16(x))));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded, rounded), 0b1000);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  static F canonical(F x) {
    const I nan = as_int(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return select(nan, as_float(set(0x7FC00000)), x);
  }
  // Lane i reads the two neighbours p[i * stride] and p[i * stride + 1].
  static void gather_pairs(const std::uint16_t* p, I offsets, F& first, F& second) {
    const I pairs = _mm256_i32gather_epi32(reinterpret_cast<const int*>(p), offsets, 2);
    first = as_float(left<16>(pairs));
    second = as_float(bit_and(pairs, set(static_cast<std::int32_t>(0xFFFF0000))));
  }
  static I offsets(std::int32_t stride) {
    return _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), set(stride));
  }

  template <int Half>
  static __m128i half(I x) {
    return Half == 0 ? _mm256_castsi256_si128(x) : _mm256_extracti128_si256(x, 1);
  }
  template <int Half>
  static D to_double(I x) {
    return _mm256_cvtepi32_pd(half<Half>(x));
  }
  template <int Half>
  static D power_of_two(I exponent) {
    const __m256i wide = _mm256_cvtepi32_epi64(half<Half>(exponent));
    return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_add_epi64(wide, _mm256_set1_epi64x(1023)), 52));
  }
  static D add(D a, D b) { return _mm256_add_pd(a, b); }
  static D mul(D a, D b) { return _mm256_mul_pd(a, b); }
  static F nearest(D low, D high) { return join(_mm256_cvtpd_ps(low), _mm256_cvtpd_ps(high)); }
  // Toward zero; a magnitude of 2^128 or more is infinite. The nearest f32 is pulled back by one ulp where it
  // went past.
  static F toward_zero(D low, D high) {
    const auto narrow = [](D x) {
      const __m128 near = _mm256_cvtpd_ps(x);
      const __m256d magnitude = absolute(x);
      const __m256d past =
          _mm256_and_pd(_mm256_cmp_pd(absolute(_mm256_cvtps_pd(near)), magnitude, _CMP_GT_OQ),
                        _mm256_cmp_pd(magnitude, _mm256_set1_pd(0x1p128), _CMP_LT_OQ));
      const __m256i picked =
          _mm256_permutevar8x32_epi32(_mm256_castpd_si256(past), _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
      return _mm_castsi128_ps(
          _mm_add_epi32(_mm_castps_si128(near), _mm256_castsi256_si128(picked)));  // true is -1
    };
    return join(narrow(low), narrow(high));
  }

 private:
  static F join(__m128 low, __m128 high) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
  }
  static D absolute(D x) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), x); }
};

}  // namespace samebits::engine::cpu
