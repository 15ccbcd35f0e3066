// What every kernel file shares: export macros and the cut of rows into work items.
//
// Each file in kernels/ is compiled once per instruction set; LH_KERNEL gives every exported symbol
// the suffix of its variant (spmm_forward_avx2), and Python picks the suffix when it loads the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#define LH_PASTE2(a, b) a##_##b
#define LH_PASTE(a, b) LH_PASTE2(a, b)
#define LH_KERNEL(name) extern "C" __attribute__((visibility("default"))) int LH_PASTE(name, LONGHOP_VARIANT)

// Exported kernels return one of these; native.py raises on anything but OK.
enum LhStatus : int { LH_OK = 0, LH_UNSUPPORTED = 1, LH_NO_MEMORY = 2, LH_BAD_INDEX = 3 };

namespace LONGHOP_VARIANT {

// A piece of work: whole rows [row, row_end), or, when part >= 0, the pairs [begin, end) of one long row.
struct WorkItem {
  int64_t row, row_end;
  int64_t begin, end;
  int64_t part;  // index among all partial results, -1 for whole rows
};

// Cuts rows into items of about `grain` pairs. Rows longer than `longest` are cut into parts of
// `longest` pairs. The cut depends on rowptr alone, so results do not depend on the thread count.
// `extra` pairs are counted on top for every row (global tokens).
inline std::vector<WorkItem> cut_rows(const int64_t* rowptr, int64_t num_rows, int64_t grain, int64_t longest,
                                      int64_t extra = 0) {
  std::vector<WorkItem> items;
  int64_t first = 0, cost = 0, parts = 0;
  auto flush = [&](int64_t row) {
    if (first < row) items.push_back({first, row, rowptr[first], rowptr[row], -1});
    cost = 0;
  };
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t length = rowptr[row + 1] - rowptr[row];
    if (length > longest) {
      flush(row);
      for (int64_t begin = rowptr[row]; begin < rowptr[row + 1]; begin += longest) {
        const int64_t end = begin + longest < rowptr[row + 1] ? begin + longest : rowptr[row + 1];
        items.push_back({row, row + 1, begin, end, parts++});
      }
      first = row + 1;
      continue;
    }
    cost += length + extra + 4;  // 4: what an empty row costs, in pairs
    if (cost >= grain) {
      flush(row + 1);
      first = row + 1;
    }
  }
  flush(num_rows);
  return items;
}

}  // namespace LONGHOP_VARIANT
