// Sixteen lanes of AVX-512 (F, BW, DQ, VL). Included by kernels_avx512.cpp alone.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace samebits::engine::cpu {

struct Avx512 {
  static constexpr int kLanes = 16;
  static constexpr int kPanelRows = 12;  // 24 accumulators of the 32 registers
  static constexpr int kPanelVectors = 2;
  using F = __m512;
  using I = __m512i;
  using M = __mmask16;
  using D = __m512d;  // half of the lanes

  static F zero() { return _mm512_setzero_ps(); }
  static F set(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static F broadcast(const float* p) { return _mm512_set1_ps(*p); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }

  static I set(std::int32_t x) { return _mm512_set1_epi32(x); }
  static I load(const std::int32_t* p) { return _mm512_loadu_si512(p); }
  static void store(std::int32_t* p, I x) { _mm512_storeu_si512(p, x); }
  static I broadcast(const std::int32_t* p) { return _mm512_set1_epi32(*p); }
  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  static I sub(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I max(I a, I b) { return _mm512_max_epi32(a, b); }
  static I min(I a, I b) { return _mm512_min_epi32(a, b); }
  static I bit_and(I a, I b) { return _mm512_and_si512(a, b); }
  static I bit_or(I a, I b) { return _mm512_or_si512(a, b); }
  template <int N>
  static I left(I a) {
    return _mm512_slli_epi32(a, N);
  }
  template <int N>
  static I right(I a) {
    return _mm512_srli_epi32(a, N);
  }
  static I arithmetic_right(I a, I count) { return _mm512_srav_epi32(a, count); }  // counts from 0 to 31

  static I as_int(F x) { return _mm512_castps_si512(x); }
  static F as_float(I x) { return _mm512_castsi512_ps(x); }
  static I truncate(F x) { return _mm512_cvttps_epi32(x); }
  static F to_float(I x) { return _mm512_cvtepi32_ps(x); }

  static M equal(I a, I b) { return _mm512_cmpeq_epi32_mask(a, b); }
  static M greater(I a, I b) { return _mm512_cmpgt_epi32_mask(a, b); }
  static M either(M a, M b) { return static_cast<M>(a | b); }
  static bool any(M m) { return m != 0; }
  static F select(M m, F yes, F no) { return _mm512_mask_blend_ps(m, no, yes); }
  static I select(M m, I yes, I no) { return _mm512_mask_blend_epi32(m, no, yes); }

  // The f32 value of bf16(x). NaNs stay NaNs: theirs have zeros in the low half, so the carry stops there.
  static F round_bf16(F x) {
    const I u = as_int(x);
    const I odd = bit_and(right<16>(u), set(1));
    return as_float(bit_and(add(add(u, set(0x7FFF)), odd), set(static_cast<std::int32_t>(0xFFFF0000))));
  }
  static F load_bf16(const std::uint16_t* p) {
    return as_float(left<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))));
  }
  // bf16(x) with the canonical NaN.
  static void store_bf16(std::uint16_t* p, F x) {
    const M nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const I rounded = _mm512_srli_epi32(as_int(round_bf16(x)), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(select(nan, set(0x7FC0), rounded)));
  }
  static F canonical(F x) {
    const M nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return select(nan, as_float(set(0x7FC00000)), x);
  }
  // Lane i reads the two neighbours p[i * stride] and p[i * stride + 1].
  static void gather_pairs(const std::uint16_t* p, I offsets, F& first, F& second) {
    const I pairs = _mm512_i32gather_epi32(offsets, p, 2);
    first = as_float(left<16>(pairs));
    second = as_float(bit_and(pairs, set(static_cast<std::int32_t>(0xFFFF0000))));
  }
  static I offsets(std::int32_t stride) {
    return _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                              set(stride));
  }

  template <int Half>
  static __m256i half(I x) {
    return Half == 0 ? _mm512_castsi512_si256(x) : _mm512_extracti64x4_epi64(x, 1);
  }
  template <int Half>
  static D to_double(I x) {
    return _mm512_cvtepi32_pd(half<Half>(x));
  }
  template <int Half>
  static D power_of_two(I exponent) {
    const __m512i wide = _mm512_cvtepi32_epi64(half<Half>(exponent));
    return _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_add_epi64(wide, _mm512_set1_epi64(1023)), 52));
  }
  static D add(D a, D b) { return _mm512_add_pd(a, b); }
  static D mul(D a, D b) { return _mm512_mul_pd(a, b); }
  static F nearest(D low, D high) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
  }
  // Toward zero; a magnitude of 2^128 or more is infinite.
  static F toward_zero(D low, D high) {
    constexpr int kMode = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
    const auto narrow = [](D x) {
      const __m256 cut = _mm512_cvt_roundpd_ps(x, kMode);
      const __mmask8 over = _mm512_cmp_pd_mask(_mm512_abs_pd(x), _mm512_set1_pd(0x1p128), _CMP_GE_OQ);
      return _mm256_mask_mov_ps(cut, over, _mm512_cvtpd_ps(x));
    };
    return _mm512_insertf32x8(_mm512_castps256_ps512(narrow(low)), narrow(high), 1);
  }
};

}  // namespace samebits::engine::cpu
