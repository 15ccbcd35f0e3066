// What is done to the elements of rows: dropout by identities, activations.
#pragma once

#include <algorithm>

#include "philox.h"
#include "staging.h"

namespace LONGHOP_VARIANT {

enum Act : int { NONE = 0, RELU = 1, GELU = 2 };

// Calls step(g, c, lanes) for the vectors of `columns` columns: the g-th of eight, whose first column is c. `lanes` is
// the constant 8 but at the end. What step needs it holds by value, so that it stays in registers.
template <class Step>
inline void walk_columns(int64_t columns, const Step& step, int64_t begin = 0) {
  const int64_t full = columns / 8;
#pragma GCC unroll 2
  for (int64_t g = begin; g < full; ++g) step(g, 8 * g, Count<8>{});
  if (8 * full < columns) step(full, 8 * full, columns - 8 * full);
}

// The same in vectors of the WIDEST kind, where there are enough columns: then `lanes` is the constant 16.
template <class Step>
inline void walk_wide(int64_t columns, const Step& step) {
  const int64_t wide = WIDEST == 16 ? columns / 16 : 0;
  if constexpr (WIDEST == 16)
    for (int64_t g = 0; g < wide; ++g) step(2 * g, 16 * g, Count<16>{});
  walk_columns(columns, step, 2 * wide);
}

// Zeros in the lanes that there are not.
template <class Lanes>
inline f32x8 only_lanes(f32x8 v, Lanes lanes) {
  if constexpr (!std::is_same<Lanes, Count<8>>::value)
    for (int64_t l = lanes; l < 8; ++l) v[l] = 0.0f;
  return v;
}

// Dropout of [rows, width]: a function of (seed, row identity, column, site).
struct Mask {
  static constexpr int64_t TILE = 8;     // rows that share calls of the generator
  static constexpr int64_t GROUPS = 32;  // groups of eight columns in a stretch

  int64_t rows, width;
  const int64_t* seed;
  const int64_t* row_ids;  // null: row numbers
  int64_t site;
  int32_t threshold;  // 0: nothing is dropped

  int64_t groups() const { return (width + 7) / 8; }
  float scale() const { return 65536.0f / static_cast<float>(65536 - threshold); }  // of what is kept
};

// Identities of a tile's rows, as low halves of 64-bit lanes.
struct RowIds {
  u64x4 front, back;

  RowIds(const Mask& m, int64_t row) {
    uint64_t ids[Mask::TILE];
    for (int64_t r = 0; r < Mask::TILE; ++r) {
      const int64_t at = std::min(row + r, m.rows - 1);
      ids[r] = static_cast<uint64_t>(m.row_ids ? m.row_ids[at] : at);
    }
    std::memcpy(&front, ids, sizeof front);
    std::memcpy(&back, ids + 4, sizeof back);
  }
};

// Which elements of a tile are kept, columns 8 first ..: kept[group][row][8].
inline void fill_kept(const Mask& m, const PhiloxKeys& keys, int64_t row, int64_t first, int64_t groups,
                      uint16_t* kept) {
  const RowIds ids(m, row);
  const u64x4 site = u64x4{} + static_cast<uint64_t>(m.site);
  const uint16_t threshold = static_cast<uint16_t>(m.threshold);
  for (int64_t g = 0; g < groups; ++g) {
    const u64x4 group = u64x4{} + static_cast<uint64_t>(first + g);
    PhiloxWords w = {ids.front, ids.front >> 32, group, site}, v = {ids.back, ids.back >> 32, group, site};
    philox4x2(keys, w, v);
    philox_kept(w, threshold, kept + g * 64);
    philox_kept(v, threshold, kept + g * 64 + 32);
  }
}

// Calls body(row, first, kept) for each row in [begin, end) and each stretch of GROUPS groups from `first` on;
// lane l of group first + g is kept[g * TILE * 8 + l], where something is dropped.
template <bool RANDOM, class Body>
inline void walk_rows(const Mask& m, int64_t begin, int64_t end, const Body& body) {
  alignas(32) uint16_t kept[Mask::GROUPS * Mask::TILE * 8];
  const bool random = RANDOM && m.threshold;
  const PhiloxKeys keys(random ? *m.seed : 0);
  for (int64_t row = begin; row < end; row += Mask::TILE)
    for (int64_t first = 0; first < m.groups(); first += Mask::GROUPS) {
      if (random) fill_kept(m, keys, row, first, std::min(Mask::GROUPS, m.groups() - first), kept);
      for (int64_t r = 0; r < std::min(Mask::TILE, end - row); ++r) body(row + r, first, kept + r * 8);
    }
}

template <class Step>
inline void walk_stretch(const Mask& m, int64_t first, const Step& step) {
  walk_wide(std::min(8 * Mask::GROUPS, m.width - 8 * first), step);
}

template <int N, class V>
inline V polynomial(const float (&coefficients)[N], V u) {
  V p = V{} + coefficients[N - 1];
  for (int k = N - 2; k >= 0; --k) p = p * u + coefficients[k];
  return p;
}

// 1/2 + x p(x^2) / q(x^2) for |x| <= limit, 0 or 1 beyond: both functions below less 1/2 are odd.
template <int P, int Q, class V>
inline V sigmoidal(V x, const float (&p)[P], const float (&q)[Q], float limit) {
  const V u = x * x, one_half = V{} + 0.5f;
  const Ints<V> sign = (Ints<V>)x & INT32_MIN;
  const V half = x * (polynomial(p, u) / polynomial(q, u));
  const V beyond = (V)(sign | (Ints<V>)one_half);
  return one_half + select(less(V{} + limit * limit, u), beyond, half);
}

// Rational fits in x^2 (Chebyshev points, reweighted to a level error). The normal distribution function, and
// gelu's slope: that function plus x times its density. Errors: 2e-7 and 3e-7, the rounding of fp32 included.
template <class V>
inline V normal_cdf(V x) {
  constexpr float p[] = {0.398941934f,    0.0384259745f,    0.00467580277f,  0.000197559333f,
                         3.58836087e-06f, -2.28687806e-08f, 1.10783271e-10f};
  constexpr float q[] = {1.0f, 0.262981296f, 0.0305590443f, 0.00198353361f, 7.18744195e-05f};
  return sigmoidal(x, p, q, 5.5f);
}
template <class V>
inline V gelu_slope(V x) {
  constexpr float p[] = {0.797883987f,    0.481357068f,    -0.00634694705f, 0.00921037979f,
                         3.56344462e-05f, 2.34296658e-05f, 1.28242633e-07f};
  constexpr float q[] = {1.0f,            0.936617255f,    0.229273781f,   0.0295952372f,
                         0.00244236132f,  0.000127818028f, 5.88040575e-06f};
  return sigmoidal(x, p, q, 5.8f);
}
template <class V>
inline Ints<V> positive(V x) {
  return less(V{}, x) | is_nan(x);  // a NaN must not vanish
}

}  // namespace LONGHOP_VARIANT
