// The bound that gathering kernels are measured against: visits rows as they do, reads, and adds.
#include "staging.h"

using namespace LONGHOP_VARIANT;

// Reads `width` floats of x's row col[e], `reads` (1 or 2) times a pair, rows cut and shared out as spmm's,
// with one add a vector and a prefetch `distance` pairs ahead (0: none). `sink` [1] gets a number that
// depends on everything read. Widths are multiples of 64.
LH_KERNEL(gather_bound)
(const int64_t* rowptr, int64_t num_rows, const int32_t* col, const float* x, int64_t x_stride, int64_t width,
 int64_t reads, int64_t distance, float* sink, int64_t num_threads) {
  if (width % 64 != 0) return LH_UNSUPPORTED;
  return guarded([&] {
    const std::vector<WorkItem> items = cut_rows(rowptr, num_rows, GRAIN, LONGEST);
    const int64_t num_items = static_cast<int64_t>(items.size()), num_pairs = rowptr[num_rows];
    float total = 0.0f;
#pragma omp parallel num_threads(static_cast<int>(num_threads)) reduction(+ : total)
    {
      f32x8 acc[8] = {};
#pragma omp for schedule(dynamic, 1)
      for (int64_t n = 0; n < num_items; ++n)
        for (int64_t e = items[n].begin; e < items[n].end; ++e) {
          if (distance > 0 && e + distance < num_pairs)
            prefetch_bytes(x + col[e + distance] * x_stride, width * static_cast<int64_t>(sizeof(float)));
          for (int64_t read = 0; read < reads; ++read) {
            const float* row = x + col[e] * x_stride;
            for (int64_t c = 0; c < width; c += 64)
              for (int k = 0; k < 8; ++k) acc[k] += load8(row + c + 8 * k);
            // A second read is a second read, not a multiplication by two.
            __asm__ volatile("" ::: "memory");
          }
        }
      for (int k = 0; k < 8; ++k) total += sum8(acc[k]);
    }
    *sink = total;
    return static_cast<int>(LH_OK);
  });
}
