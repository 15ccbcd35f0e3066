// Philox4x32-10 (Salmon et al., SC'11), four or eight counters at a time.
//
// One call gives 4 words = eight 16-bit lanes; lane l is the low (l even) or high (l odd) half of word l/2.
// A lane is dropped when it is below `threshold` = round(65536 p). The masks made here are those of
// ops/philox.py bit for bit.
#pragma once

#include <cstdint>

#include "simd.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace LONGHOP_VARIANT {

typedef uint64_t u64x4 __attribute__((vector_size(32)));

// The keys of the ten rounds, in every lane.
struct PhiloxKeys {
  u64x4 lo[10], hi[10];

  PhiloxKeys() = default;
  explicit PhiloxKeys(int64_t seed) {
    uint32_t low = static_cast<uint32_t>(static_cast<uint64_t>(seed));
    uint32_t high = static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32);
    for (int round = 0; round < 10; ++round, low += 0x9E3779B9u, high += 0xBB67AE85u) {
      lo[round] = u64x4{} + low;
      hi[round] = u64x4{} + high;
    }
  }
};

// 64-bit products of the low words; the high words are ignored.
static inline u64x4 multiply_low_words(u64x4 a, u64x4 b) {
#if defined(__AVX2__)
  return (u64x4)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  __m128i x[2], y[2];
  std::memcpy(x, &a, sizeof x);
  std::memcpy(y, &b, sizeof y);
  for (int h = 0; h < 2; ++h) x[h] = _mm_mul_epu32(x[h], y[h]);
  std::memcpy(&a, x, sizeof x);
  return a;
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

// Four calls. A counter, and later a word, is the low half of its 64-bit lane; what the high half holds
// has no effect, and is arbitrary on return.
struct PhiloxWords {
  u64x4 w0, w1, w2, w3;
};

static inline void philox_round(PhiloxWords& c, u64x4 key_lo, u64x4 key_hi) {
  const u64x4 p0 = multiply_low_words(c.w0, u64x4{} + 0xD2511F53u);
  const u64x4 p1 = multiply_low_words(c.w2, u64x4{} + 0xCD9E8D57u);
  c.w0 = (p1 >> 32) ^ c.w1 ^ key_lo;
  c.w2 = (p0 >> 32) ^ c.w3 ^ key_hi;
  c.w1 = p1;
  c.w3 = p0;
}

#if defined(__AVX512F__)
typedef uint64_t u64x8 __attribute__((vector_size(64)));

// Two times four calls, side by side.
struct WidePhiloxWords {
  u64x8 w0, w1, w2, w3;

  static u64x8 join(u64x4 a, u64x4 b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7); }
  static u64x8 multiply(u64x8 a, uint32_t b) {
    return (u64x8)_mm512_mul_epu32((__m512i)a, (__m512i)(u64x8{} + b));
  }

  WidePhiloxWords(const PhiloxWords& a, const PhiloxWords& b)
      : w0(join(a.w0, b.w0)), w1(join(a.w1, b.w1)), w2(join(a.w2, b.w2)), w3(join(a.w3, b.w3)) {}

  void round(u64x4 key_lo, u64x4 key_hi) {
    const u64x8 p0 = multiply(w0, 0xD2511F53u), p1 = multiply(w2, 0xCD9E8D57u);
    w0 = (p1 >> 32) ^ w1 ^ join(key_lo, key_lo);
    w2 = (p0 >> 32) ^ w3 ^ join(key_hi, key_hi);
    w1 = p1;
    w3 = p0;
  }

  static void halve(u64x8 v, u64x4& a, u64x4& b) {
    a = __builtin_shufflevector(v, v, 0, 1, 2, 3);
    b = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  }
  void split(PhiloxWords& a, PhiloxWords& b) const {
    halve(w0, a.w0, b.w0);
    halve(w1, a.w1, b.w1);
    halve(w2, a.w2, b.w2);
    halve(w3, a.w3, b.w3);
  }
};
#endif

// Two times four calls, interleaved: one round's latency hides behind the other's work.
static inline void philox4x2(const PhiloxKeys& keys, PhiloxWords& a, PhiloxWords& b) {
#if defined(__AVX512F__)
  WidePhiloxWords both(a, b);
  for (int round = 0; round < 10; ++round) both.round(keys.lo[round], keys.hi[round]);
  both.split(a, b);
#else
  for (int round = 0; round < 10; ++round) {
    philox_round(a, keys.lo[round], keys.hi[round]);
    philox_round(b, keys.lo[round], keys.hi[round]);
  }
#endif
}

static inline u64x4 join_words(u64x4 low, u64x4 high) { return (low & 0xffffffffu) | (high << 32); }

// All bits of a 16-bit lane where it is kept (lane >= threshold), else none.
static inline u64x4 kept_lanes(u64x4 lanes, uint16_t threshold) {
#if defined(__SSE2__) && !defined(__AVX2__)  // one register at a time, as in simd.h
  u16x8 half[2];
  std::memcpy(half, &lanes, sizeof half);
  for (u16x8& h : half) h = (u16x8)(h >= threshold);
  std::memcpy(&lanes, half, sizeof half);
  return lanes;
#else
  typedef uint16_t u16x16 __attribute__((vector_size(32)));
  return (u64x4)((u16x16)lanes >= threshold);
#endif
}

// The same for four calls, call after call: 4 * 8 lanes.
static inline void philox_kept(const PhiloxWords& c, uint16_t threshold, uint16_t* kept) {
  const u64x4 front = kept_lanes(join_words(c.w0, c.w1), threshold);
  const u64x4 back = kept_lanes(join_words(c.w2, c.w3), threshold);
  const u64x4 calls02 = __builtin_shufflevector(front, back, 0, 4, 2, 6);
  const u64x4 calls13 = __builtin_shufflevector(front, back, 1, 5, 3, 7);
  for (int pair = 0; pair < 2; ++pair) {
    std::memcpy(kept + 16 * pair, reinterpret_cast<const char*>(&calls02) + 16 * pair, 16);
    std::memcpy(kept + 16 * pair + 8, reinterpret_cast<const char*>(&calls13) + 16 * pair, 16);
  }
}

// Eight lanes of 0.0 or `scale` from eight lanes of philox_kept.
static inline f32x8 kept_scale8(const uint16_t* kept, float scale) {
  typedef int16_t i16x8 __attribute__((vector_size(16)));
  i16x8 half;
  std::memcpy(&half, kept, sizeof half);
#if defined(__AVX2__)  // GCC widens the halves one by one
  const i32x8 all = (i32x8)_mm256_cvtepi16_epi32((__m128i)half);
#else
  const i32x8 all = __builtin_convertvector(half, i32x8);
#endif
  return (f32x8)(all & (i32x8)splat(scale));
}

// Eight lanes of 0.0 or `scale` from one byte of keep bits.
static inline f32x8 keep_scale8(uint8_t keep, float scale) {
  const i32x8 bit = {1, 2, 4, 8, 16, 32, 64, 128};
  const i32x8 set = equal8(bit & static_cast<int32_t>(keep), bit);
  return (f32x8)(set & (i32x8)splat(scale));
}

}  // namespace LONGHOP_VARIANT
