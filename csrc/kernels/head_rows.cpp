// Copies [N, H, D] of any strides into rows [D', H'] with heads fastest, zeros in the padding.
#include <cstring>
#include <type_traits>

#include "common.h"

namespace LONGHOP_VARIANT {
namespace {

template <int N>
using Number = std::integral_constant<int, N>;

// The vector or part of one that a run of so many numbers is padded to.
constexpr int padded(int length) { return length == 3 ? 4 : length <= 8 ? 8 : 16; }

struct Strides {
  int64_t row, head, d;
};

// What a row is made of: `runs` runs of `length` numbers, of which each takes out_length, and then `padding` zeros.
// The numbers of a run lie `step` elements apart, the runs `stride`.
struct Runs {
  int64_t runs, length, out_length, padding, step, stride;
};

// LENGTH and OUT: the lengths of a run whose numbers lie beside each other, known to the compiler; 0 = see `r`.
template <typename T, int LENGTH, int OUT>
void copy_row(const T* from, const Runs& r, T* to) {
  for (int64_t i = 0; i < r.runs; ++i, from += r.stride) {
    if constexpr (LENGTH > 0) {
      T run[OUT] = {};
      std::memcpy(run, from, LENGTH * sizeof(T));
      std::memcpy(to, run, OUT * sizeof(T));
      to += OUT;
    } else {
      for (int64_t h = 0; h < r.length; ++h) to[h] = from[h * r.step];
      for (int64_t h = r.length; h < r.out_length; ++h) to[h] = 0;
      to += r.out_length;
    }
  }
  for (int64_t i = 0; i < r.padding; ++i) to[i] = 0;
}

template <typename T, int LENGTH, int OUT>
void copy_rows(const T* src, int64_t row_stride, int64_t rows, const Runs& r, T* dst, int64_t threads) {
  const int64_t out_row = r.runs * r.out_length + r.padding;
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * out_row > 16384)
  for (int64_t n = 0; n < rows; ++n) copy_row<T, LENGTH, OUT>(src + n * row_stride, r, dst + n * out_row);
}

// Copies runs of numbers beside each other if their length is one of LENGTHS, kept or padded.
template <typename T, int... LENGTHS>
bool copy_dense(const T* src, int64_t row_stride, int64_t rows, const Runs& r, T* dst, int64_t threads) {
  const auto one = [&](auto length, auto out) {
    if (r.length != length || r.out_length != out) return false;
    copy_rows<T, length, out>(src, row_stride, rows, r, dst, threads);
    return true;
  };
  return ((one(Number<LENGTHS>{}, Number<LENGTHS>{}) || one(Number<LENGTHS>{}, Number<padded(LENGTHS)>{})) || ...);
}

template <typename T>
void pack(const T* src, Strides s, int64_t rows, int64_t heads, int64_t width, T* dst, int64_t out_heads,
          int64_t out_width, int64_t threads) {
  Runs r{width, heads, out_heads, (out_width - width) * out_heads, s.head, s.d};
  if (heads == 1 && out_heads == 1) r = {1, width, out_width, 0, s.d, 0};
  if (r.step == 1 && copy_dense<T, 3, 4, 5, 6, 7, 12>(src, s.row, rows, r, dst, threads)) return;
  copy_rows<T, 0, 0>(src, s.row, rows, r, dst, threads);
}

}  // namespace
}  // namespace LONGHOP_VARIANT

// Strides in elements; out [rows, out_width, out_heads] with out_heads >= heads and out_width >= width.
LH_KERNEL(head_rows)
(const void* src, int64_t row_stride, int64_t head_stride, int64_t d_stride, int64_t rows, int64_t heads,
 int64_t width, void* dst, int64_t out_heads, int64_t out_width, int64_t element_bytes, int64_t threads) {
  using namespace LONGHOP_VARIANT;
  const Strides strides{row_stride, head_stride, d_stride};
  if (element_bytes == 4)
    pack(static_cast<const uint32_t*>(src), strides, rows, heads, width, static_cast<uint32_t*>(dst), out_heads,
         out_width, threads);
  else if (element_bytes == 2)
    pack(static_cast<const uint16_t*>(src), strides, rows, heads, width, static_cast<uint16_t*>(dst), out_heads,
         out_width, threads);
  else
    return LH_UNSUPPORTED;
  return LH_OK;
}
