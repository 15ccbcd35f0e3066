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

struct PhiloxKey {
  uint32_t lo, hi;
};

static inline PhiloxKey philox_key(int64_t seed) {
  return {static_cast<uint32_t>(static_cast<uint64_t>(seed)),
          static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32)};
}

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

static inline void philox_round(PhiloxWords& c, u64x4 k0, u64x4 k1) {
  const u64x4 p0 = multiply_low_words(c.w0, u64x4{} + 0xD2511F53u);
  const u64x4 p1 = multiply_low_words(c.w2, u64x4{} + 0xCD9E8D57u);
  c.w0 = (p1 >> 32) ^ c.w1 ^ k0;
  c.w2 = (p0 >> 32) ^ c.w3 ^ k1;
  c.w1 = p1;
  c.w3 = p0;
}

// Two times four calls, interleaved: one round's latency hides behind the other's work.
static inline void philox4x2(PhiloxKey key, PhiloxWords& a, PhiloxWords& b) {
  u64x4 k0 = u64x4{} + key.lo, k1 = u64x4{} + key.hi;
  for (int round = 0; round < 10; ++round) {
    philox_round(a, k0, k1);
    philox_round(b, k0, k1);
    k0 += 0x9E3779B9u;  // a carry goes to the high half, which has no effect
    k1 += 0xBB67AE85u;
  }
}

static inline u64x4 join_words(u64x4 low, u64x4 high) { return (low & 0xffffffffu) | (high << 32); }

// The 16-bit lanes of four calls, call after call: 4 * 8 numbers.
static inline void philox_lanes(const PhiloxWords& c, uint16_t* lanes) {
  const u64x4 front = join_words(c.w0, c.w1), back = join_words(c.w2, c.w3);
  const u64x4 calls01 = {front[0], back[0], front[1], back[1]};
  const u64x4 calls23 = {front[2], back[2], front[3], back[3]};
  std::memcpy(lanes, &calls01, sizeof calls01);
  std::memcpy(lanes + 16, &calls23, sizeof calls23);
}

// Eight lanes of 0.0 or `scale` from eight 16-bit lanes of a call.
static inline f32x8 philox_keep_scale8(const uint16_t* lanes, int32_t threshold, float scale) {
  u16x8 half;
  std::memcpy(&half, lanes, sizeof half);
  const i32x8 keep = at_least8(__builtin_convertvector(half, i32x8), threshold);
  return (f32x8)(keep & (i32x8)splat(scale));
}

// Even calls in `even`, odd ones in `odd`: splitting and joining is free of shuffles.
static inline void philox_split(u32x8 c0, u32x8 c1, u32x8 c2, u32x8 c3, PhiloxWords& even, PhiloxWords& odd) {
  even = {(u64x4)c0, (u64x4)c1, (u64x4)c2, (u64x4)c3};
  odd = {even.w0 >> 32, even.w1 >> 32, even.w2 >> 32, even.w3 >> 32};
}

// Bit l of keep[e] says whether 16-bit lane l of call e is kept (lane >= threshold).
static inline void philox_keep8(PhiloxKey key, u32x8 c0, u32x8 c1, u32x8 c2, u32x8 c3, uint32_t threshold,
                                uint8_t* keep) {
  typedef uint8_t u8x8 __attribute__((vector_size(8)));
  PhiloxWords even, odd;
  philox_split(c0, c1, c2, c3, even, odd);
  philox4x2(key, even, odd);
  const i32x8 words[4] = {(i32x8)join_words(even.w0, odd.w0), (i32x8)join_words(even.w1, odd.w1),
                          (i32x8)join_words(even.w2, odd.w2), (i32x8)join_words(even.w3, odd.w3)};
  const int32_t t = static_cast<int32_t>(threshold);
  i32x8 bits = {};
  for (int w = 0; w < 4; ++w) {
    const i32x8 high = (i32x8)((u32x8)words[w] >> 16);
    bits |= at_least8(words[w] & 0xffff, t) & (1 << (2 * w));
    bits |= at_least8(high, t) & (2 << (2 * w));
  }
  const u8x8 bytes = __builtin_convertvector(bits, u8x8);
  std::memcpy(keep, &bytes, sizeof bytes);
}

// Eight lanes of 0.0 or `scale` from one byte of keep bits.
static inline f32x8 keep_scale8(uint8_t keep, float scale) {
  const i32x8 bit = {1, 2, 4, 8, 16, 32, 64, 128};
  const i32x8 set = equal8(bit & static_cast<int32_t>(keep), bit);
  return (f32x8)(set & (i32x8)splat(scale));
}

}  // namespace LONGHOP_VARIANT
