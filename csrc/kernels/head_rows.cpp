// Copies [N, H, D] of any strides into rows [D', H'] with heads fastest, zeros in the padding.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common.h"

namespace LONGHOP_VARIANT {
namespace {

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

template <typename T>
void copy_row(const T* from, const Runs& r, T* to) {
  for (int64_t i = 0; i < r.runs; ++i, from += r.stride, to += r.out_length) {
    for (int64_t h = 0; h < r.length; ++h) to[h] = from[h * r.step];
    for (int64_t h = r.length; h < r.out_length; ++h) to[h] = 0;
  }
  std::fill_n(to, r.padding, 0);
}

// Runs of LENGTH numbers beside each other, OUT a power of two. Each is read as a vector of OUT, the last of which may
// belong to the next row: not for a tensor's last row.
template <typename T, int LENGTH, int OUT>
void copy_dense_row(const T* from, const Runs& r, T* to) {
  typedef T Vector __attribute__((vector_size(OUT * sizeof(T))));
  Vector mask;
  for (int h = 0; h < OUT; ++h) mask[h] = h < LENGTH ? static_cast<T>(-1) : 0;
  for (int64_t i = 0; i < r.runs; ++i, from += r.stride, to += OUT) {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    v &= mask;
    std::memcpy(to, &v, sizeof v);
  }
  std::fill_n(to, r.padding, 0);
}

template <typename T, typename CopyRow>
void copy_rows(const T* src, int64_t row_stride, int64_t rows, const Runs& r, T* dst, int64_t threads,
               CopyRow&& copy) {
  const int64_t out_row = r.runs * r.out_length + r.padding;
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * out_row > 16384)
  for (int64_t n = 0; n < rows; ++n) {
    if (n + 1 < rows)
      copy(src + n * row_stride, r, dst + n * out_row);
    else
      copy_row(src + n * row_stride, r, dst + n * out_row);
  }
}

// Copies runs of numbers beside each other if their length is one of LENGTHS.
template <typename T, int... LENGTHS>
bool copy_dense(const T* src, int64_t row_stride, int64_t rows, const Runs& r, T* dst, int64_t threads) {
  const auto one = [&](auto length) {
    constexpr int LENGTH = decltype(length)::value, OUT = padded(LENGTH);
    if (r.length != LENGTH || r.out_length != OUT) return false;
    copy_rows(src, row_stride, rows, r, dst, threads, copy_dense_row<T, LENGTH, OUT>);
    return true;
  };
  return (one(std::integral_constant<int, LENGTHS>{}) || ...);
}

template <typename T>
void pack(const T* src, Strides s, int64_t rows, int64_t heads, int64_t width, T* dst, int64_t out_heads,
          int64_t out_width, int64_t threads) {
  Runs r{width, heads, out_heads, (out_width - width) * out_heads, s.head, s.d};
  if (heads == 1 && out_heads == 1) r = {1, width, out_width, 0, s.d, 0};
  const bool dense = r.step == 1 && s.row >= (r.runs - 1) * r.stride + r.length;
  if (dense && copy_dense<T, 3, 4, 5, 6, 7, 12>(src, s.row, rows, r, dst, threads)) return;
  copy_rows(src, s.row, rows, r, dst, threads, copy_row<T>);
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
