// Sums and means over a graph, and the gradient of their weights. The gradient of x is the same sum over
// the transposed graph.
#include "staging.h"

namespace LONGHOP_VARIANT {
namespace {

template <class T>
struct Sum {
  const T* x;
  int64_t stride, width;
  bool mean;
  T* out;
  bool stream;
  float* partial;  // [parts, width]: sums of the parts of rows that were cut
};

template <int VECTORS, int LANES, class T>
inline void sum_pairs(const T* x, const Stage& s, int64_t begin, int64_t end, int64_t ahead, int64_t last,
                      f32x8* acc) {
  for (int k = 0; k < VECTORS; ++k) acc[k] = zero8();
  for (int64_t n = begin; n < end; ++n) {
    prefetch_vectors<VECTORS>(x + s.offset[n + ahead]);
    const T* row = x + s.offset[n];
    const f32x8 coef = splat(s.coef[n]);
    for (int k = 0; k < VECTORS - 1; ++k) acc[k] += coef * load8(row + 8 * k);
    acc[VECTORS - 1] += coef * load_last<LANES>(row, last);
  }
}

template <class T>
void sum_row(const Sum<T>& p, const Stage& s, int64_t row, int64_t begin, int64_t end, int64_t ahead) {
  const f32x8 count = splat(p.mean && end > begin ? static_cast<float>(end - begin) : 1.0f);
  for_each_block<8>(p.width, [&](auto vectors, auto lanes, int64_t c) {
    f32x8 acc[vectors];
    const int64_t last = last_vector(p.width, c, vectors);
    sum_pairs<vectors, lanes>(p.x + c, s, begin, end, ahead, last, acc);
    if (p.mean)
      for (int k = 0; k < vectors; ++k) acc[k] = acc[k] / count;
    T* out = p.out + row * p.width + c;
    if constexpr (std::is_same<T, float>::value && lanes == 0)
      if (p.stream) {
        for (int k = 0; k < vectors; ++k) stream8(out + 8 * k, acc[k]);
        return;
      }
    for (int k = 0; k < vectors - 1; ++k) store8(out + 8 * k, acc[k]);
    store_last<lanes>(out, last, acc[vectors - 1]);
  });
}

template <class T>
void sum_part(const Sum<T>& p, const Stage& s, const WorkItem& item, int64_t ahead) {
  for_each_block<8>(p.width, [&](auto vectors, auto lanes, int64_t c) {
    f32x8 acc[vectors];
    const int64_t last = last_vector(p.width, c, vectors);
    sum_pairs<vectors, lanes>(p.x + c, s, 0, item.end - item.begin, ahead, last, acc);
    float* out = p.partial + item.part * p.width + c;
    for (int k = 0; k < vectors - 1; ++k) store8(out + 8 * k, acc[k]);
    store_last<lanes>(out, last, acc[vectors - 1]);
  });
}

template <class T>
void merge_sums(const Sum<T>& p, int64_t row, int64_t length, int64_t first, int64_t parts) {
  float* total = p.partial + first * p.width;
  add_parts(total, parts, p.width);
  const float count = p.mean ? static_cast<float>(length) : 1.0f;
  for (int64_t c = 0; c < p.width; ++c) store1(p.out + row * p.width + c, total[c] / count);
}

template <class T>
int sum_all(const Pairs& pairs, Sum<T> p, int64_t threads) {
  if (!offsets_valid(pairs)) return LH_BAD_INDEX;
  Plan plan(pairs, p.width * sizeof(T), threads);
  std::vector<float> partial(plan.num_parts * p.width);
  p.partial = partial.data();
  p.stream = p.width % 8 == 0 && worth_streaming(p.out, pairs.num_rows * p.width * sizeof(T));
  plan.for_each_item(p.stride, [&](const WorkItem& item, const Stage& s) {
    if (item.part >= 0) return sum_part(p, s, item, plan.ahead);
    for (int64_t row = item.row; row < item.row_end; ++row)
      sum_row(p, s, row, pairs.rowptr[row] - item.begin, pairs.rowptr[row + 1] - item.begin, plan.ahead);
  });
  plan.for_each_cut_row([&](int64_t row, int64_t first, int64_t parts) {
    merge_sums(p, row, pairs.length(row), first, parts);
  });
  return plan.status();
}

template <class T>
struct Dot {
  const T *grad, *x;
  int64_t grad_stride, x_stride, width;
  bool mean;
  float* out;  // [pairs]
};

template <int VECTORS, int LANES, class T>
inline void dot_pairs(const f32x8* g, const T* x, const Stage& s, int64_t begin, int64_t end, int64_t ahead,
                      int64_t last, bool add, float* out) {
  for (int64_t n = begin; n < end; ++n) {
    prefetch_vectors<VECTORS>(x + s.offset[n + ahead]);
    const T* row = x + s.offset[n];
    f32x8 acc = g[VECTORS - 1] * load_last<LANES>(row, last);
    for (int k = 0; k < VECTORS - 1; ++k) acc += g[k] * load8(row + 8 * k);
    out[n] = (add ? out[n] : 0.0f) + sum8(acc);
  }
}

// out[n] = grad of `row` . x of pair n's source, for staged pairs begin..end.
template <class T>
void dot_row(const Dot<T>& p, const Stage& s, int64_t row, int64_t begin, int64_t end, int64_t ahead, float scale,
             float* out) {
  const i32x8 lane = {0, 1, 2, 3, 4, 5, 6, 7};
  for_each_block<8>(p.width, [&](auto vectors, auto lanes, int64_t c) {
    const int64_t last = last_vector(p.width, c, vectors);
    const T* grad = p.grad + row * p.grad_stride + c;
    f32x8 g[vectors];
    for (int k = 0; k < vectors - 1; ++k) g[k] = splat(scale) * load8(grad + 8 * k);
    g[vectors - 1] = splat(scale) * load_last<lanes>(grad, last);
    // Columns in which the last vector overlaps others count once.
    const auto overlap = static_cast<int32_t>(overlapping_lanes(p.width, c, vectors, lanes));
    g[vectors - 1] = select8(at_least8(lane, overlap), g[vectors - 1], zero8());
    dot_pairs<vectors, lanes>(g, p.x + c, s, begin, end, ahead, last, c > 0, out);
  });
}

template <class T>
int dot_all(const Pairs& pairs, const Dot<T>& p, int64_t threads) {
  if (!offsets_valid(pairs)) return LH_BAD_INDEX;
  Plan plan(pairs, p.width * sizeof(T), threads);
  if (p.width == 0) std::fill(p.out, p.out + pairs.num_pairs, 0.0f);
  plan.for_each_item(p.x_stride, [&](const WorkItem& item, const Stage& s) {
    for (int64_t row = item.row; row < item.row_end; ++row) {
      const int64_t begin = std::max(pairs.rowptr[row], item.begin), end = std::min(pairs.rowptr[row + 1], item.end);
      const float scale = p.mean && begin < end ? 1.0f / static_cast<float>(pairs.length(row)) : 1.0f;
      dot_row(p, s, row, begin - item.begin, end - item.begin, plan.ahead, scale, p.out + item.begin);
    }
  });
  return plan.status();
}

}  // namespace
}  // namespace LONGHOP_VARIANT

using namespace LONGHOP_VARIANT;

// out[i] = sum over the pairs e of row i of weight[e or perm[e]] * source_scale[col[e]] * x[col[e]], over
// the number of pairs when `mean`. col, perm, weight and source_scale may be null.
LH_KERNEL(spmm_sum)
(const int64_t* rowptr, int64_t num_rows, const void* col, const void* perm, int64_t wide, int64_t num_pairs,
 const float* weight, const float* source_scale, const void* x, int64_t is_bf16, int64_t num_sources,
 int64_t x_stride, int64_t width, int64_t mean, void* out, int64_t num_threads) {
  const Pairs pairs{rowptr, num_rows, col, perm, wide != 0, num_pairs, num_sources, weight, source_scale};
  return guarded([&] {
    if (is_bf16)
      return sum_all<bf16>(pairs, {(const bf16*)x, x_stride, width, mean != 0, (bf16*)out, false, nullptr},
                           num_threads);
    return sum_all<float>(pairs, {(const float*)x, x_stride, width, mean != 0, (float*)out, false, nullptr},
                          num_threads);
  });
}

// out[e] = grad[i] . x[col[e]] for the pairs e of each row i, over the row's length when `mean`.
LH_KERNEL(spmm_dot)
(const int64_t* rowptr, int64_t num_rows, const void* col, int64_t wide, int64_t num_pairs, const void* grad,
 const void* x, int64_t is_bf16, int64_t num_sources, int64_t grad_stride, int64_t x_stride, int64_t width,
 int64_t mean, float* out, int64_t num_threads) {
  const Pairs pairs{rowptr, num_rows, col, nullptr, wide != 0, num_pairs, num_sources, nullptr, nullptr};
  return guarded([&] {
    if (is_bf16)
      return dot_all<bf16>(pairs, {(const bf16*)grad, (const bf16*)x, grad_stride, x_stride, width, mean != 0, out},
                           num_threads);
    return dot_all<float>(pairs, {(const float*)grad, (const float*)x, grad_stride, x_stride, width, mean != 0, out},
                          num_threads);
  });
}
