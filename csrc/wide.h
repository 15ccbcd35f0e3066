// Vectors of eight lanes, or of sixteen where the build has AVX-512: what elementwise kernels need of both.
#pragma once

#include <type_traits>

#include "lanes.h"
#include "philox.h"

namespace LONGHOP_VARIANT {

template <int N>
using Count = std::integral_constant<int, N>;

typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));

#if defined(__AVX512F__)
constexpr int WIDEST = 16;
#else
constexpr int WIDEST = 8;
#endif

template <class V>
using Ints = std::conditional_t<sizeof(V) == 64, i32x16, i32x8>;

template <class V>
constexpr bool is_wide = sizeof(V) == 64;

// Two halves as one.
static inline f32x16 join(f32x8 front, f32x8 back) {
  return __builtin_shufflevector(front, back, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
static inline f32x8 front8(f32x16 v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7); }
static inline f32x8 back8(f32x16 v) { return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15); }

template <class V>
inline Ints<V> less(V a, V b) {
  if constexpr (is_wide<V>)
    return a < b;
  else
    return less8(a, b);
}
template <class V>
inline Ints<V> is_nan(V a) {
  if constexpr (is_wide<V>)
    return a != a;
  else
    return nan8(a);
}
template <class V>
inline V select(Ints<V> mask, V yes, V no) {
  if constexpr (is_wide<V>)
    return mask ? yes : no;
  else
    return select8(mask, yes, no);
}

// `lanes` numbers, as many as a constant says or, below eight, as a number does; zeros in the other lanes.
template <class T, class Lanes>
inline auto load_lanes(const T* p, Lanes lanes) {
  if constexpr (std::is_same<Lanes, Count<16>>::value) {
    if constexpr (std::is_same<T, float>::value) {
      f32x16 v;
      std::memcpy(&v, p, sizeof v);
      return v;
    } else {
      return join(load8(p), load8(p + 8));
    }
  } else if constexpr (std::is_same<Lanes, Count<8>>::value) {
    return load8(p);
  } else {
    return load_some(p, lanes);
  }
}

template <class T, class Lanes>
inline void write_lanes(T* out, f32x8 v, Lanes lanes, bool stream) {
  if constexpr (!std::is_same<Lanes, Count<8>>::value) return store_some(out, v, lanes);
  if constexpr (std::is_same<T, float>::value)
    if (stream) return stream8(out, v);
  store8(out, v);
}
template <class T>
inline void write_lanes(T* out, f32x16 v, Count<16>, bool stream) {
  write_lanes(out, front8(v), Count<8>{}, stream);
  write_lanes(out + 8, back8(v), Count<8>{}, stream);
}

// Adds to sums that have room for all eight lanes of the last vector.
inline void add_lanes(float* sums, f32x8 v) { store8(sums, load8(sums) + v); }
inline void add_lanes(float* sums, f32x16 v) {
  v += load_lanes(sums, Count<16>{});
  std::memcpy(sums, &v, sizeof v);
}

// Lanes of 0.0 or `scale` from what philox_kept wrote: eight, or the eight of the next group too, `group` behind.
template <class V>
inline V kept_scale(const uint16_t* kept, int64_t group, float scale) {
  if constexpr (is_wide<V>)
    return join(kept_scale8(kept, scale), kept_scale8(kept + group, scale));
  else
    return kept_scale8(kept, scale);
}

// The same from bytes of keep bits.
template <class V>
inline V keep_scale(const uint8_t* bits, float scale) {
  if constexpr (is_wide<V>)
    return join(keep_scale8(bits[0], scale), keep_scale8(bits[1], scale));
  else
    return keep_scale8(bits[0], scale);
}

inline void write_mask_bits(uint8_t* bits, i32x8 mask) { bits[0] = mask_bits8(mask); }
inline void write_mask_bits(uint8_t* bits, i32x16 mask) {
  bits[0] = mask_bits8((i32x8)front8((f32x16)mask));
  bits[1] = mask_bits8((i32x8)back8((f32x16)mask));
}

}  // namespace LONGHOP_VARIANT
