// Gradient of a reduction over consecutive rows: every row of a segment gets the segment's gradient.
// (The reduction itself is spmm_sum and spmm_max without columns.)
#include "winner.h"

namespace LONGHOP_VARIANT {
namespace {

template <class T>
void scaled_copy(const T* grad, float scale, int64_t width, T* out) {
  for (int64_t c = 0; c < width; ++c) store1(out + c, scale * load1(grad + c));
}

template <class T, class W>
void won_copy(const T* grad, const W* winner, W position, int64_t width, T* out) {
  for (int64_t c = 0; c < width; ++c) store1(out + c, winner[c] == position ? load1(grad + c) : 0.0f);
}

template <class T, class W>
int spread(const Pairs& pairs, const T* grad, int64_t stride, int64_t width, bool mean, const W* winner, T* out,
           int64_t threads) {
  if (!offsets_valid(pairs)) return LH_BAD_INDEX;
  const std::vector<WorkItem> items = cut_rows(pairs.rowptr, pairs.num_rows, GRAIN, LONGEST);
  const int64_t num_items = static_cast<int64_t>(items.size());
#pragma omp parallel for schedule(dynamic, 1) num_threads(static_cast<int>(threads)) if (num_items > 1)
  for (int64_t n = 0; n < num_items; ++n)
    for (int64_t row = items[n].row; row < items[n].row_end; ++row) {
      const int64_t begin = std::max(pairs.rowptr[row], items[n].begin);
      const int64_t end = std::min(pairs.rowptr[row + 1], items[n].end);
      const float scale = mean && begin < end ? 1.0f / static_cast<float>(pairs.length(row)) : 1.0f;
      for (int64_t e = begin; e < end; ++e)
        if (winner)
          won_copy(grad + row * stride, winner + row * width, static_cast<W>(e - pairs.rowptr[row]), width,
                   out + e * width);
        else
          scaled_copy(grad + row * stride, scale, width, out + e * width);
    }
  return LH_OK;
}

}  // namespace
}  // namespace LONGHOP_VARIANT

using namespace LONGHOP_VARIANT;

// out[e] = grad of e's segment, over the segment's length when `mean`; with winners, only where e won.
LH_KERNEL(segment_grad)
(const int64_t* rowptr, int64_t num_rows, int64_t num_pairs, const void* grad, int64_t is_bf16, int64_t stride,
 int64_t width, int64_t mean, const void* winner, int64_t winner_bits, void* out, int64_t num_threads) {
  const Pairs pairs{rowptr, num_rows, nullptr, nullptr, false, num_pairs, num_pairs, nullptr, nullptr};
  return guarded([&] {
    return with_winner_type(winner_bits, [&](auto* type) {
      using W = std::remove_pointer_t<decltype(type)>;
      if (is_bf16)
        return spread<bf16, W>(pairs, (const bf16*)grad, stride, width, mean != 0, (const W*)winner, (bf16*)out,
                               num_threads);
      return spread<float, W>(pairs, (const float*)grad, stride, width, mean != 0, (const W*)winner, (float*)out,
                              num_threads);
    });
  });
}
