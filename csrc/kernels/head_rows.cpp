// Copies [N, H, D] of any strides into rows [D', H'] with heads fastest, zeros in the padding.
#include "common.h"

namespace LONGHOP_VARIANT {
namespace {

struct Strides {
  int64_t row, head, d;
};

template <typename T>
void pack(const T* src, Strides s, int64_t rows, int64_t heads, int64_t width, T* dst, int64_t out_heads,
          int64_t out_width, int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * out_heads * out_width > 16384)
  for (int64_t n = 0; n < rows; ++n) {
    const T* from = src + n * s.row;
    T* to = dst + n * out_heads * out_width;
    for (int64_t d = 0; d < width; ++d, to += out_heads) {
      const T* one = from + d * s.d;
      for (int64_t h = 0; h < heads; ++h) to[h] = one[h * s.head];
      for (int64_t h = heads; h < out_heads; ++h) to[h] = 0;
    }
    for (int64_t i = 0; i < (out_width - width) * out_heads; ++i) to[i] = 0;
  }
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
