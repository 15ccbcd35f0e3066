// Eight-lane vectors that are not full, packed flags, and stores that go past the cache.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace LONGHOP_VARIANT {

// The first N lanes from memory, zeros in the others; reads and writes N numbers only.
template <int N>
static inline f32x8 load_part(const float* p) {
  f32x8 v = {};
  std::memcpy(&v, p, N * sizeof(float));
  return v;
}
template <int N>
static inline f32x8 load_part(const bf16* p) {
  u16x8 half = {};
  std::memcpy(&half, p, N * sizeof(bf16));
  return (f32x8)(widen8(half) << 16);
}
template <int N, class T>
static inline void store_part(T* p, f32x8 v) {
  T full[8];
  store8(full, v);
  std::memcpy(p, full, N * sizeof(T));
}

// The same with a number of lanes known only at run time, 1 to 8.
template <class T>
static inline f32x8 load_some(const T* p, int64_t n) {
  f32x8 v = {};
  for (int64_t l = 0; l < n; ++l) v[l] = load1(p + l);
  return v;
}
template <class T>
static inline void store_some(T* p, f32x8 v, int64_t n) {
  for (int64_t l = 0; l < n; ++l) store1(p + l, v[l]);
}

// Bit l of the result is the sign bit of lane l.
static inline uint8_t mask_bits8(i32x8 mask) {
#if defined(__AVX__)
  return static_cast<uint8_t>(_mm256_movemask_ps((__m256)mask));
#elif defined(__SSE2__)
  __m128 half[2];
  std::memcpy(half, &mask, sizeof half);
  return static_cast<uint8_t>(_mm_movemask_ps(half[0]) | _mm_movemask_ps(half[1]) << 4);
#else
  uint8_t bits = 0;
  for (int l = 0; l < 8; ++l) bits |= static_cast<uint8_t>((mask[l] < 0) << l);
  return bits;
#endif
}

static inline float sum8(f32x8 v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

// Whether `bytes` written at `out` should bypass the cache: an output larger than caches are would only
// push other data out, and a normal store reads each line before it writes it.
static inline bool worth_streaming(const void* out, int64_t bytes) {
  return bytes >= (int64_t{16} << 20) && reinterpret_cast<uintptr_t>(out) % 32 == 0;
}
// p is aligned to the eight numbers written; stream_fence() makes what a thread streamed visible to others.
static inline void stream8(float* p, f32x8 v) {
#if defined(__AVX__)
  _mm256_stream_ps(p, (__m256)v);
#elif defined(__SSE2__)
  __m128 half[2];
  std::memcpy(half, &v, sizeof half);
  _mm_stream_ps(p, half[0]);
  _mm_stream_ps(p + 4, half[1]);
#else
  store8(p, v);
#endif
}
static inline void stream8(bf16* p, f32x8 v) {
#if defined(__SSE2__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), (__m128i)round8(v));
#else
  store8(p, v);
#endif
}
static inline void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace LONGHOP_VARIANT
