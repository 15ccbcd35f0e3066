// Maximum over a graph: forward keeps each winner's position in its row, backward follows it.
#include <cmath>

#include "winner.h"

namespace LONGHOP_VARIANT {
namespace {

constexpr int BLOCK = 4;  // vectors at a time: each takes a register for its values and one for positions

template <class T>
struct Max {
  const T* x;
  int64_t stride, width;
  const int64_t* ids;  // of sources; null: their order in the row
  // [parts + threads, width]: results of the parts of rows that were cut, then one row a thread.
  float* best;
  int32_t* position;
};

// A staged pair as it is sorted: ties between values go to the pair that comes first.
struct Candidate {
  int64_t id, offset;
  int32_t position;
  float coef;

  bool operator<(const Candidate& other) const {
    return id != other.id ? id < other.id : position < other.position;
  }
};

// Makes positions relative to the row and, where identities decide ties, puts its pairs in their order.
template <class T>
void order_row(const Max<T>& p, const Pairs& pairs, int64_t row, int64_t first, int64_t begin, int64_t end,
               const Stage& s, Candidate* sorted) {
  for (int64_t n = begin; n < end; ++n) s.position[n] = first + n - pairs.rowptr[row];
  if (p.ids == nullptr) return;
  bool ascending = true;
  for (int64_t n = begin; n < end; ++n) {
    const int64_t id = p.ids[pairs.source(first + n)];
    ascending &= n == begin || sorted[n - begin - 1].id <= id;
    sorted[n - begin] = {id, s.offset[n], static_cast<int32_t>(s.position[n]), s.coef[n]};
  }
  if (ascending) return;
  std::sort(sorted, sorted + (end - begin));
  for (int64_t n = begin; n < end; ++n) {
    const Candidate& c = sorted[n - begin];
    s.offset[n] = c.offset, s.position[n] = c.position, s.coef[n] = c.coef;
  }
}

template <int VECTORS, int LANES, class T>
inline void max_pairs(const T* x, const Stage& s, int64_t begin, int64_t end, int64_t ahead, int64_t last,
                      f32x8* best, i32x8* position) {
  // A row of nothing but -inf keeps its first pair; an empty one gives 0.
  for (int k = 0; k < VECTORS; ++k) {
    best[k] = begin < end ? splat(-INFINITY) : zero8();
    position[k] = i32x8{} + (begin < end ? static_cast<int32_t>(s.position[begin]) : 0);
  }
  for (int64_t n = begin; n < end; ++n) {
    prefetch_vectors<VECTORS>(x + s.offset[n + ahead]);
    const T* row = x + s.offset[n];
    const f32x8 coef = splat(s.coef[n]);
    const i32x8 here = i32x8{} + static_cast<int32_t>(s.position[n]);
    for (int k = 0; k < VECTORS; ++k) {
      const f32x8 v = coef * (k < VECTORS - 1 ? load8(row + 8 * k) : load_last<LANES>(row, last));
      const i32x8 better = less8(best[k], v) | nan8(v);  // NaN wins: it must not vanish
      best[k] = select8(better, v, best[k]);
      position[k] = (better & here) | (~better & position[k]);
    }
  }
}

// Best values and positions of staged pairs into row `at` of the buffers.
template <class T>
void max_row(const Max<T>& p, const Stage& s, int64_t begin, int64_t end, int64_t ahead, int64_t at) {
  for_each_block<BLOCK>(p.width, [&](auto vectors, auto lanes, int64_t c) {
    f32x8 best[vectors];
    i32x8 position[vectors];
    const int64_t last = last_vector(p.width, c, vectors);
    max_pairs<vectors, lanes>(p.x + c, s, begin, end, ahead, last, best, position);
    float* best_out = p.best + at * p.width + c;
    int32_t* position_out = p.position + at * p.width + c;
    for (int k = 0; k < vectors - 1; ++k) {
      store8(best_out + 8 * k, best[k]);
      store_winners<0>(position_out + 8 * k, 0, position[k]);
    }
    store_last<lanes>(best_out, last, best[vectors - 1]);
    store_winners<lanes>(position_out, last, position[vectors - 1]);
  });
}

// The best of a row's parts, into the first; ties go to the smallest identity, then to the smallest position.
template <class T>
void merge_max(const Max<T>& p, const Pairs& pairs, int64_t row, int64_t first, int64_t parts) {
  const auto id = [&](int32_t position) {
    return p.ids ? p.ids[pairs.source(pairs.rowptr[row] + position)] : int64_t{position};
  };
  for (int64_t c = 0; c < p.width; ++c) {
    float& best = p.best[first * p.width + c];
    int32_t& position = p.position[first * p.width + c];
    for (int64_t part = first + 1; part < first + parts; ++part) {
      const float v = p.best[part * p.width + c];
      const int32_t other = p.position[part * p.width + c];
      if (v > best || v != v || (v == best && id(other) < id(position))) best = v, position = other;
    }
  }
}

// Row `at` of the buffers, in the types of the results.
template <class T, class W>
void write_row(const Max<T>& p, int64_t at, T* out, W* winner) {
  const float* best = p.best + at * p.width;
  const int32_t* position = p.position + at * p.width;
  for (int64_t c = 0; c < p.width; ++c) {
    store1(out + c, best[c]);
    winner[c] = static_cast<W>(position[c]);
  }
}

template <class T, class W>
int max_all(const Pairs& pairs, Max<T> p, T* out, W* winner, int64_t threads) {
  if (!offsets_valid(pairs) || longest_row(pairs) > most_pairs(8 * sizeof(W))) return LH_BAD_INDEX;
  Plan plan(pairs, p.width * sizeof(T), threads);
  std::vector<float> best((plan.num_parts + plan.num_threads) * p.width);
  std::vector<int32_t> position(best.size());
  std::vector<Candidate> candidates(p.ids ? plan.num_threads * plan.room() : 0);
  p.best = best.data(), p.position = position.data();
  plan.for_each_item(p.stride, [&](const WorkItem& item, const Stage& s) {
    Candidate* sorted = candidates.data() + (p.ids ? omp_get_thread_num() * plan.room() : 0);
    for (int64_t row = item.row; row < item.row_end; ++row) {
      const int64_t begin = std::max(pairs.rowptr[row], item.begin) - item.begin;
      const int64_t end = std::min(pairs.rowptr[row + 1], item.end) - item.begin;
      const int64_t at = item.part >= 0 ? item.part : plan.num_parts + omp_get_thread_num();
      order_row(p, pairs, row, item.begin, begin, end, s, sorted);
      max_row(p, s, begin, end, plan.ahead, at);
      if (item.part < 0) write_row(p, at, out + row * p.width, winner + row * p.width);
    }
  });
  if (plan.status() != LH_OK) return plan.status();
  plan.for_each_cut_row([&](int64_t row, int64_t first, int64_t parts) {
    merge_max(p, pairs, row, first, parts);
    write_row(p, first, out + row * p.width, winner + row * p.width);
  });
  return LH_OK;
}

template <class T, class W>
struct MaxGrad {
  const int64_t* rowptr;  // of the untransposed graph, whose rows `grad` and `winner` have
  const T* grad;
  int64_t grad_stride;
  const W* winner;
  int64_t width;
  float* sums;  // [parts + threads, width], as in Max
};

// acc = sum over staged pairs of coef * grad where the pair won.
template <int VECTORS, int LANES, class T, class W>
inline void won_pairs(const MaxGrad<T, W>& p, const Stage& s, int64_t begin, int64_t end, int64_t ahead, int64_t c,
                      int64_t last, f32x8* acc) {
  for (int k = 0; k < VECTORS; ++k) acc[k] = zero8();
  for (int64_t n = begin; n < end; ++n) {
    const int64_t row = s.offset[n], next = s.offset[n + ahead];
    prefetch_vectors<VECTORS>(p.grad + next * p.grad_stride + c);
    __builtin_prefetch(p.winner + next * p.width + c, 0, 3);
    const T* grad = p.grad + row * p.grad_stride + c;
    const W* winner = p.winner + row * p.width + c;
    const f32x8 coef = splat(s.coef[n]);
    const i32x8 here = i32x8{} + static_cast<int32_t>(s.position[n]);
    for (int k = 0; k < VECTORS - 1; ++k) {
      const i32x8 won = equal8(load_winners<0>(winner + 8 * k, 0), here);
      acc[k] += coef * select8(won, load8(grad + 8 * k), zero8());
    }
    const i32x8 won = equal8(load_winners<LANES>(winner, last), here);
    acc[VECTORS - 1] += coef * select8(won, load_last<LANES>(grad, last), zero8());
  }
}

template <class T, class W>
void won_row(const MaxGrad<T, W>& p, const Stage& s, int64_t begin, int64_t end, int64_t ahead, float* out) {
  for_each_block<BLOCK>(p.width, [&](auto vectors, auto lanes, int64_t c) {
    f32x8 acc[vectors];
    const int64_t last = last_vector(p.width, c, vectors);
    won_pairs<vectors, lanes>(p, s, begin, end, ahead, c, last, acc);
    for (int k = 0; k < vectors - 1; ++k) store8(out + c + 8 * k, acc[k]);
    store_last<lanes>(out + c, last, acc[vectors - 1]);
  });
}

template <class T, class W>
int max_grad_all(const Pairs& pairs, MaxGrad<T, W> p, T* out, int64_t threads) {
  if (!offsets_valid(pairs)) return LH_BAD_INDEX;
  Plan plan(pairs, p.width * sizeof(T), threads);
  std::vector<float> sums((plan.num_parts + plan.num_threads) * p.width);
  p.sums = sums.data();
  const auto write_row = [&](const float* sum, int64_t row) {
    for (int64_t c = 0; c < p.width; ++c) store1(out + row * p.width + c, sum[c]);
  };
  plan.for_each_item(1, [&](const WorkItem& item, const Stage& s) {
    const int64_t count = item.end - item.begin;
    for (int64_t n = 0; n < count; ++n) s.position[n] -= p.rowptr[s.offset[n]];
    if (item.part >= 0) return won_row(p, s, 0, count, plan.ahead, p.sums + item.part * p.width);
    float* sum = p.sums + (plan.num_parts + omp_get_thread_num()) * p.width;
    for (int64_t row = item.row; row < item.row_end; ++row) {
      won_row(p, s, pairs.rowptr[row] - item.begin, pairs.rowptr[row + 1] - item.begin, plan.ahead, sum);
      write_row(sum, row);
    }
  });
  plan.for_each_cut_row([&](int64_t row, int64_t first, int64_t parts) {
    add_parts(p.sums + first * p.width, parts, p.width);
    write_row(p.sums + first * p.width, row);
  });
  return plan.status();
}

// out[e] = sum over columns that pair e won of grad * x. A row's own winners are visited, not its pairs.
template <class T, class W>
int max_weight_all(const Pairs& pairs, const T* grad, int64_t grad_stride, const T* x, int64_t x_stride,
                   const W* winner, int64_t width, float* out, int64_t threads) {
  if (!offsets_valid(pairs)) return LH_BAD_INDEX;
  Plan plan(pairs, width * sizeof(T), threads);
  plan.for_each_item(x_stride, [&](const WorkItem& item, const Stage& s) {
    std::fill(out + item.begin, out + item.end, 0.0f);
    for (int64_t row = item.row; row < item.row_end; ++row) {
      const int64_t start = pairs.rowptr[row] - item.begin;
      const int64_t begin = std::max<int64_t>(start, 0);
      const int64_t end = std::min(pairs.rowptr[row + 1], item.end) - item.begin;
      for (int64_t c = 0; c < width; ++c) {
        const int64_t n = start + winner[row * width + c];
        if (n < begin || n >= end) continue;  // no pair, or one of another part of the row
        out[item.begin + n] += load1(grad + row * grad_stride + c) * load1(x + s.offset[n] + c);
      }
    }
  });
  return plan.status();
}

}  // namespace
}  // namespace LONGHOP_VARIANT

using namespace LONGHOP_VARIANT;

// out[i] = largest weight[e] * x[col[e]] over the pairs e of row i; winner [num_rows, width] gets the
// position of the pair in its row, in `winner_bits` bits. Ties go to the smallest ids[col[e]] (null ids: to the
// first pair).
LH_KERNEL(spmm_max)
(const int64_t* rowptr, int64_t num_rows, const void* col, int64_t wide, int64_t num_pairs, const float* weight,
 const void* x, int64_t is_bf16, int64_t num_sources, int64_t x_stride, int64_t width, const int64_t* ids,
 void* out, void* winner, int64_t winner_bits, int64_t num_threads) {
  const Pairs pairs{rowptr, num_rows, col, nullptr, wide != 0, num_pairs, num_sources, weight, nullptr};
  return guarded([&] {
    return with_winner_type(winner_bits, [&](auto* type) {
      using W = std::remove_pointer_t<decltype(type)>;
      if (is_bf16)
        return max_all<bf16, W>(pairs, {(const bf16*)x, x_stride, width, ids, nullptr, nullptr}, (bf16*)out,
                                (W*)winner, num_threads);
      return max_all<float, W>(pairs, {(const float*)x, x_stride, width, ids, nullptr, nullptr}, (float*)out,
                               (W*)winner, num_threads);
    });
  });
}

// Gradient of x: out[j] = sum over the pairs of row j of the transposed graph of weight * grad where won.
LH_KERNEL(spmm_max_grad_x)
(const int64_t* rowptr, int64_t num_queries, const int64_t* t_rowptr, int64_t num_rows, const void* t_col,
 const void* perm, int64_t wide, int64_t num_pairs, const float* weight, const void* grad, int64_t is_bf16,
 int64_t grad_stride, const void* winner, int64_t winner_bits, int64_t width, void* out, int64_t num_threads) {
  const Pairs pairs{t_rowptr, num_rows, t_col, perm, wide != 0, num_pairs, num_queries, weight, nullptr};
  return guarded([&] {
    return with_winner_type(winner_bits, [&](auto* type) {
      using W = std::remove_pointer_t<decltype(type)>;
      if (is_bf16)
        return max_grad_all<bf16, W>(
            pairs, {rowptr, (const bf16*)grad, grad_stride, (const W*)winner, width, nullptr}, (bf16*)out, num_threads);
      return max_grad_all<float, W>(
          pairs, {rowptr, (const float*)grad, grad_stride, (const W*)winner, width, nullptr}, (float*)out, num_threads);
    });
  });
}

// Gradient of the weights, out [num_pairs].
LH_KERNEL(spmm_max_grad_weight)
(const int64_t* rowptr, int64_t num_rows, const void* col, int64_t wide, int64_t num_pairs, const void* grad,
 const void* x, int64_t is_bf16, int64_t num_sources, int64_t grad_stride, int64_t x_stride, const void* winner,
 int64_t winner_bits, int64_t width, float* out, int64_t num_threads) {
  const Pairs pairs{rowptr, num_rows, col, nullptr, wide != 0, num_pairs, num_sources, nullptr, nullptr};
  return guarded([&] {
    return with_winner_type(winner_bits, [&](auto* type) {
      using W = std::remove_pointer_t<decltype(type)>;
      if (is_bf16)
        return max_weight_all<bf16, W>(pairs, (const bf16*)grad, grad_stride, (const bf16*)x, x_stride,
                                       (const W*)winner, width, out, num_threads);
      return max_weight_all<float, W>(pairs, (const float*)grad, grad_stride, (const float*)x, x_stride,
                                      (const W*)winner, width, out, num_threads);
    });
  });
}
