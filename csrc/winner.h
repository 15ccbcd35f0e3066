// Positions of winners, kept in the narrowest integer that holds a row's length, read as eight int32.
#pragma once

#include "staging.h"

namespace LONGHOP_VARIANT {

typedef uint8_t u8x8 __attribute__((vector_size(8)));
typedef int16_t i16x8 __attribute__((vector_size(16)));

template <class W>
struct Lanes8;
template <>
struct Lanes8<uint8_t> {
  typedef u8x8 type;
};
template <>
struct Lanes8<int16_t> {
  typedef i16x8 type;
};
template <>
struct Lanes8<int32_t> {
  typedef i32x8 type;
};

// LANES as in load_last: 0 means all eight, `last` entries after p.
template <int LANES, class W>
static inline i32x8 load_winners(const W* p, int64_t last) {
  typename Lanes8<W>::type narrow = {};
  std::memcpy(&narrow, LANES ? p : p + last, LANES ? LANES * sizeof(W) : sizeof narrow);
  return __builtin_convertvector(narrow, i32x8);
}
template <int LANES, class W>
static inline void store_winners(W* p, int64_t last, i32x8 v) {
  const auto narrow = __builtin_convertvector(v, typename Lanes8<W>::type);
  std::memcpy(LANES ? p : p + last, &narrow, LANES ? LANES * sizeof(W) : sizeof narrow);
}

// Calls f with a null pointer of the winners' type; `bits` is 8, 16 or 32.
template <class F>
int with_winner_type(int64_t bits, const F& f) {
  if (bits == 8) return f(static_cast<uint8_t*>(nullptr));
  if (bits == 16) return f(static_cast<int16_t*>(nullptr));
  if (bits == 32) return f(static_cast<int32_t*>(nullptr));
  return LH_UNSUPPORTED;
}

// Most pairs that a row may have: positions 0 .. most - 1 fit.
inline int64_t most_pairs(int64_t bits) { return bits == 8 ? 256 : int64_t{1} << (bits - 1); }

inline int64_t longest_row(const Pairs& pairs) {
  int64_t longest = 0;
  for (int64_t row = 0; row < pairs.num_rows; ++row) longest = std::max(longest, pairs.length(row));
  return longest;
}

}  // namespace LONGHOP_VARIANT
