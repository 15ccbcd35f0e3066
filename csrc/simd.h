// Eight-lane vectors in GCC/Clang vector extensions: one source for SSE2, AVX2 and NEON builds.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace LONGHOP_VARIANT {

typedef float f32x8 __attribute__((vector_size(32)));
typedef int32_t i32x8 __attribute__((vector_size(32)));
typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef uint16_t u16x8 __attribute__((vector_size(16)));

static inline f32x8 splat(float x) { return f32x8{x, x, x, x, x, x, x, x}; }
static inline f32x8 zero8() { return f32x8{}; }

// Comparisons. GCC takes those of vectors wider than a register apart, lane by lane: for SSE2 they are
// written out for halves.
#if defined(__SSE2__) && !defined(__AVX2__)
template <class Op>
static inline f32x8 by_halves(f32x8 a, f32x8 b, Op op) {
  __m128 x[2], y[2];
  std::memcpy(x, &a, sizeof x);
  std::memcpy(y, &b, sizeof y);
  for (int h = 0; h < 2; ++h) x[h] = op(x[h], y[h]);
  std::memcpy(&a, x, sizeof x);
  return a;
}
static inline i32x8 less8(f32x8 a, f32x8 b) {
  return (i32x8)by_halves(a, b, [](__m128 x, __m128 y) { return _mm_cmplt_ps(x, y); });
}
static inline i32x8 equal8(f32x8 a, f32x8 b) {
  return (i32x8)by_halves(a, b, [](__m128 x, __m128 y) { return _mm_cmpeq_ps(x, y); });
}
static inline i32x8 equal8(i32x8 a, i32x8 b) {
  const i32x8 difference = a ^ b;
  return ~((difference | -difference) >> 31);
}
static inline i32x8 nan8(f32x8 a) {
  return (i32x8)by_halves(a, a, [](__m128 x, __m128 y) { return _mm_cmpunord_ps(x, y); });
}
// The second operand where one is NaN.
static inline f32x8 max8(f32x8 a, f32x8 b) {
  return by_halves(a, b, [](__m128 x, __m128 y) { return _mm_max_ps(x, y); });
}
static inline f32x8 min8(f32x8 a, f32x8 b) {
  return by_halves(a, b, [](__m128 x, __m128 y) { return _mm_min_ps(x, y); });
}
#else
static inline i32x8 less8(f32x8 a, f32x8 b) { return a < b; }
static inline i32x8 equal8(f32x8 a, f32x8 b) { return a == b; }
static inline i32x8 equal8(i32x8 a, i32x8 b) { return a == b; }
static inline i32x8 nan8(f32x8 a) { return a != a; }
static inline f32x8 max8(f32x8 a, f32x8 b) { return a > b ? a : b; }
static inline f32x8 min8(f32x8 a, f32x8 b) { return a < b ? a : b; }
#endif
// For numbers far from the ends of int32: the sign of a difference.
static inline i32x8 at_least8(i32x8 v, int32_t bound) { return ~((v - bound) >> 31); }

// Storage types: float, or bfloat16 as its 16 bits. Arithmetic is always fp32.
struct bf16 {
  uint16_t bits;
};

static inline f32x8 load8(const float* p) {
  f32x8 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
static inline u32x8 widen8(u16x8 v) {
#if defined(__AVX2__)  // GCC 12 widens the halves one by one
  return (u32x8)_mm256_cvtepu16_epi32((__m128i)v);
#else
  return __builtin_convertvector(v, u32x8);
#endif
}
static inline f32x8 load8(const bf16* p) {
  u16x8 half;
  std::memcpy(&half, p, sizeof half);
  return (f32x8)(widen8(half) << 16);
}
static inline void store8(float* p, f32x8 v) { std::memcpy(p, &v, sizeof v); }
static inline u16x8 narrow8(u32x8 v) {  // lanes below 2^16
#if defined(__AVX2__)
  const __m256i wide = (__m256i)v;
  return (u16x8)_mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
#else
  return __builtin_convertvector(v, u16x8);
#endif
}
static inline u16x8 round8(f32x8 v) {  // to bfloat16
  const u32x8 raw = (u32x8)v;
  const u32x8 nan = (u32x8)nan8(v);
  // Round to nearest even; a NaN keeps its payload's top bits and stays quiet.
  u32x8 rounded = (raw + 0x7fff + ((raw >> 16) & 1)) >> 16;
  rounded = (nan & ((raw >> 16) | 0x40)) | (~nan & rounded);
  return narrow8(rounded);
}
static inline void store8(bf16* p, f32x8 v) {
  const u16x8 half = round8(v);
  std::memcpy(p, &half, sizeof half);
}
static inline float load1(const float* p) { return *p; }
static inline float load1(const bf16* p) {
  const uint32_t raw = static_cast<uint32_t>(p->bits) << 16;
  float v;
  std::memcpy(&v, &raw, sizeof v);
  return v;
}
static inline void store1(float* p, float v) { *p = v; }
static inline void store1(bf16* p, float v) {
  uint32_t raw;
  std::memcpy(&raw, &v, sizeof raw);
  p->bits = static_cast<uint16_t>(v != v ? (raw >> 16) | 0x40 : (raw + 0x7fff + ((raw >> 16) & 1)) >> 16);
}

// `mask` has all bits of a lane set or none.
static inline f32x8 select8(i32x8 mask, f32x8 yes, f32x8 no) {
#if defined(__AVX2__)
  return (f32x8)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
#else
  return (f32x8)((mask & (i32x8)yes) | (~mask & (i32x8)no));
#endif
}

// exp(x) for x <= 88, relative error 2e-7 near 0 and 2e-6 at -87; exactly 0 below -87.3 and at -inf, NaN for NaN.
// 2^f by a degree-5 polynomial (Chebyshev nodes) on [-1/2, 1/2], the integer part put into the exponent bits.
static inline f32x8 exp8(f32x8 x) {
  const f32x8 magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const f32x8 shifted = x * splat(1.44269504f) + magic;
  const f32x8 f = x * splat(1.44269504f) - (shifted - magic);
  f32x8 p = splat(1.339086331e-03f);
  p = p * f + splat(9.676031768e-03f);
  p = p * f + splat(5.550356954e-02f);
  p = p * f + splat(2.402210683e-01f);
  p = p * f + splat(6.931471825e-01f);
  p = p * f + splat(1.0f);
  const i32x8 power = ((i32x8)shifted << 23) + (127 << 23);
  return (f32x8)(~less8(x, splat(-87.3f)) & (i32x8)(p * (f32x8)power));
}

// 32-bit indices as 64-bit ones.
static inline void widen_indices(const int32_t* from, int64_t n, int64_t* to) {
  int64_t t = 0;
#if defined(__AVX2__)  // GCC 12 shuffles each half into place first
  for (; t + 4 <= n; t += 4) {
    const __m128i narrow = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + t));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + t), _mm256_cvtepi32_epi64(narrow));
  }
#endif
  for (; t < n; ++t) to[t] = from[t];
}

static inline void prefetch_bytes(const void* p, int64_t bytes) {
  const char* at = static_cast<const char*>(p);
  for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(at + b, 0, 3);
}

}  // namespace LONGHOP_VARIANT
