// Backward of graph attention: rows give dq (and dbias, dtable), transposed rows give dk and dv. No atomics.
//
// With the saved lse every weight is p = exp(s - lse); with delta = dout . out - dlse of the query,
// ds = p (mask * dout . v - delta). See docs/design/attention.md.
#include "attention.h"

namespace LONGHOP_VARIANT {
namespace {

template <typename T>
struct Backward {
  Problem by_query, by_key;
  const T *q, *k, *v, *out, *dout;
  int64_t q_stride, k_stride, v_stride, out_stride, dout_stride, vectors;
  const float* lse;   // [queries, heads]
  const float* dlse;  // null, or as lse
  float* stats;       // [queries, 2 * 8 * GROUPS]: lse (+inf for a query without pairs) and delta, as lanes
  RowWriter<T> dq, dk, dv;
  float* dbias;       // null, or [E, heads]
  float* dtable;      // null, or [table_rows + 2 * num_global, 8 * GROUPS]
};

// Sums of ds by row of the table, over the pairs of one item. Neighbouring pairs, often of one type, add to different
// copies, so that an add need not wait for the one before it.
struct TableSums {
  static constexpr int64_t COPIES = 4, SMALL = 1024;  // a power of two; only tables up to SMALL floats are copied
  float* sums;      // null where there is no table
  int64_t floats;   // of the table
  int64_t stride;   // from copy to copy; 0 = one copy

  static int64_t copies(int64_t floats) { return floats <= SMALL ? COPIES : 1; }
  TableSums(float* sums, int64_t floats) : sums(sums), floats(floats), stride(copies(floats) > 1 ? floats : 0) {}

  float* row(int64_t t, int64_t at) const { return sums + (t & (COPIES - 1)) * stride + at; }
  void clear() { std::fill_n(sums, copies(floats) * floats, 0.0f); }
  void write(float* total) const {
    for (int64_t e = 0; e < floats; ++e) {
      total[e] = sums[e];
      for (int64_t copy = 1; copy < copies(floats); ++copy) total[e] += sums[copy * stride + e];
    }
  }
};

// Scratch of one thread. X, Y: the row's own vectors; A, B: what is accumulated for it.
struct Workspace {
  f32x8 *X, *Y, *A, *B, *S, *D;
  TableSums sums;
  Block block;
};

// S = ds, which `sums` also adds up, and D = mask * p, the weights that v had, for all pairs of a block.
// X . rows are the scores, Y . values the products; `stats` belongs to the row's query, or, when the rows are keys,
// begins an array indexed by query: {lse, delta}.
template <typename T, int G, bool PLAIN>
void block_gradients(const Problem& p, int64_t row, const f32x8* X, const T* rows, int64_t stride, const f32x8* Y,
                     const T* values, int64_t values_stride, int64_t vectors, const float* stats, Block& b, f32x8* S,
                     f32x8* D, const TableSums* sums) {
  const FinishScore<G> finish(p, b);
  const int64_t* index = b.index;
  const auto* keep = b.keep;
  const bool by_pair = p.transposed;
  dots<T, G>(X, rows, stride, vectors, b, S, values, values_stride, [&](int64_t t, f32x8* s) {
    if constexpr (!PLAIN) finish(t, s);
    for (int g = 0; g < G; ++g) S[t * G + g] = s[g];
    if (by_pair) __builtin_prefetch(stats + index[t + AHEAD] * 16 * G, 0, 3);
  });
  const bool drops = !PLAIN && p.threshold;
  const float scale = p.keep_scale;
  if (drops) fill_keep(p, row, G, b);
  const T* none = nullptr;
  dots<T, G>(Y, values, values_stride, vectors, b, D, none, 0, [&](int64_t t, f32x8* d) {
    if (!PLAIN && finish.lane_heads < 8) d[0] = fold(d[0], finish.lane_heads);
    const float* at = by_pair ? stats + index[t] * 16 * G : stats;
    for (int g = 0; g < G; ++g) {
      const f32x8 weight = exp8(S[t * G + g] - load8(at + 8 * g)), delta = load8(at + 8 * (G + g));
      const f32x8 mask = drops ? kept_scale8(keep[g] + 8 * t, scale) : splat(1.0f);
      const f32x8 ds = weight * (mask * d[g] - delta);
      S[t * G + g] = ds;
      D[t * G + g] = weight * mask;
      if (PLAIN || !sums) continue;
      float* sum = sums->row(t, (int64_t{b.type[t]} * G + g) * 8);
      store8(sum, load8(sum) + ds);
    }
  });
}

template <typename T, int G>
void row_statistics(const Backward<T>& f, int64_t row, const f32x8* dout, float* stats) {
  const Problem& p = f.by_query;
  f32x8 delta[G];
  for (int g = 0; g < G; ++g) delta[g] = zero8();
  for (int64_t c = 0; c < f.vectors; c += G)
    for (int g = 0; g < G; ++g) delta[g] += dout[c + g] * load8(f.out + row * f.out_stride + 8 * (c + g));
  for (int g = 0; g < G; ++g) {
    if (p.lane_heads < 8) delta[g] = fold(delta[g], p.lane_heads);
    if (f.dlse) delta[g] -= load_lanes(f.dlse + row * p.heads, p.heads, p.lane_heads, g);
    const f32x8 lse = load_lanes(f.lse + row * p.heads, p.heads, p.lane_heads, g);
    store8(stats + 8 * g, select8(lse == splat(-INFINITY), splat(INFINITY), lse));
    store8(stats + 8 * (G + g), delta[g]);
  }
}

// Adds the pairs [begin, end) of query `row` to dq (w.A); writes dbias and adds to the table's sums.
template <typename T, int G>
void query_pairs(const Backward<T>& f, int64_t row, int64_t begin, int64_t end, Workspace& w) {
  const Problem& p = f.by_query;
  float local[16 * G];
  // The first part of a row writes its statistics for the second pass; later parts only need a copy.
  float* stats = begin == 0 ? f.stats + row * 16 * G : local;
  prefetch_row(f.q, f.q_stride, f.vectors, row, p);
  prefetch_row(f.dout, f.dout_stride, f.vectors, row, p);
  prefetch_row(f.out, f.out_stride, f.vectors, row, p);
  load_row(w.X, f.q + row * f.q_stride, f.vectors, p.scale);
  load_row(w.Y, f.dout + row * f.dout_stride, f.vectors, 1.0f);
  row_statistics<T, G>(f, row, w.Y, stats);
  if (begin == end) std::fill(w.A, w.A + f.vectors, zero8());
  for (int64_t at = begin; at < end; at += BLOCK) {
    fill_block(p, row, at, std::min(BLOCK, end - at), w.block);
    const auto run = p.plain() ? block_gradients<T, G, true> : block_gradients<T, G, false>;
    run(p, row, w.X, f.k, f.k_stride, w.Y, f.v, f.v_stride, f.vectors, stats, w.block, w.S, w.D,
        w.sums.sums ? &w.sums : nullptr);
    for (int64_t t = 0; f.dbias && t < w.block.n; ++t)
      for (int g = 0; g < G && w.block.at[t] >= 0; ++g)
        store_lanes(f.dbias + w.block.at[t] * p.heads, w.S[t * G + g], p.heads, g);
    axpys<T, G>(at == begin, w.A, f.k, f.k_stride, f.vectors, w.block, w.S,
                [&](int64_t t, int g) { return w.S[t * G + g]; });
  }
}

// Adds the pairs [begin, end) of key `row` to dk (w.A) and dv (w.B).
template <typename T, int G>
void key_pairs(const Backward<T>& f, int64_t row, int64_t begin, int64_t end, Workspace& w) {
  const Problem& p = f.by_key;
  prefetch_row(f.k, f.k_stride, f.vectors, row, p);
  prefetch_row(f.v, f.v_stride, f.vectors, row, p);
  load_row(w.X, f.k + row * f.k_stride, f.vectors, p.scale);
  load_row(w.Y, f.v + row * f.v_stride, f.vectors, 1.0f);
  if (begin == end) std::fill(w.A, w.A + 2 * f.vectors, zero8());  // A and B
  for (int64_t at = begin; at < end; at += BLOCK) {
    fill_block(p, row, at, std::min(BLOCK, end - at), w.block);
    const auto run = p.plain() ? block_gradients<T, G, true> : block_gradients<T, G, false>;
    run(p, row, w.X, f.q, f.q_stride, w.Y, f.dout, f.dout_stride, f.vectors, f.stats, w.block, w.S, w.D, nullptr);
    axpys<T, G>(at == begin, w.A, f.q, f.q_stride, f.vectors, w.block, w.S,
                [&](int64_t t, int g) { return w.S[t * G + g]; });
    axpys<T, G>(at == begin, w.B, f.dout, f.dout_stride, f.vectors, w.block, w.D,
                [&](int64_t t, int g) { return w.D[t * G + g]; });
  }
}


// Runs `pairs(row, begin, end, item)` over items and `write(row, sums)` once a row; parts of long rows are
// summed in order first. `sums` are `width` vectors at w.A.
template <typename Pairs, typename Write>
void run_items(const std::vector<WorkItem>& items, const Problem& p, Workspace& w, int64_t width, f32x8* partial,
               Pairs&& pairs, Write&& write) {
  const int64_t count = static_cast<int64_t>(items.size());
#pragma omp for schedule(dynamic, 1)
  for (int64_t i = 0; i < count; ++i) {
    const WorkItem& item = items[i];
    if (item.part < 0) {
      for (int64_t row = item.row; row < item.row_end; ++row) {
        pairs(row, 0, p.row_length(row), i);
        write(row, w.A);
      }
    } else {
      pairs(item.row, item.begin, item.end, i);
      std::copy(w.A, w.A + width, partial + item.part * width);
    }
  }
#pragma omp for schedule(dynamic, 16)
  for (int64_t i = 0; i < count; ++i) {
    if (items[i].part < 0 || items[i].begin > 0) continue;
    std::fill(w.A, w.A + width, zero8());
    for (int64_t j = i; j < count && items[j].row == items[i].row; ++j)
      for (int64_t c = 0; c < width; ++c) w.A[c] += partial[items[j].part * width + c];
    write(items[i].row, w.A);
  }
}

template <typename T, int G>
int backward(const Backward<T>& f, int64_t threads) {
  const Problem &p = f.by_query, &pt = f.by_key;
  const std::vector<WorkItem> items = cut_problem(p), items_t = cut_problem(pt);
  const int64_t table_floats = f.dtable ? (p.table_rows + 2 * p.num_global) * 8 * G : 0;
  Scratch<f32x8> partial(std::max(count_parts(items), 2 * count_parts(items_t)) * f.vectors);
  Scratch<float> tables(table_floats * static_cast<int64_t>(items.size()));
  const bool parts = count_parts(items) || count_parts(items_t);
  if ((parts && !partial.get()) || (table_floats && !items.empty() && !tables.get())) return LH_NO_MEMORY;
  bool failed = false;
#pragma omp parallel num_threads(threads) if (p.rowptr[p.rows] + p.rows > 2048)
  {
    Scratch<f32x8> memory(4 * f.vectors + 2 * BLOCK * G);
    Scratch<float> sums(TableSums::copies(table_floats) * table_floats);
    f32x8* at = memory.get();
    if (!at || (table_floats && !sums.get())) {
#pragma omp atomic write
      failed = true;
    }
#pragma omp barrier
    bool stop;
#pragma omp atomic read
    stop = failed;
    if (!stop) {
      Workspace w{at, at + f.vectors, at + 2 * f.vectors, at + 3 * f.vectors, at + 4 * f.vectors,
                  at + 4 * f.vectors + BLOCK * G, {sums.get(), table_floats}, {}};
      auto by_query = [&](int64_t row, int64_t begin, int64_t end, int64_t item) {
        if (table_floats && row == items[item].row) w.sums.clear();
        query_pairs<T, G>(f, row, begin, end, w);
        if (table_floats && row + 1 == items[item].row_end) w.sums.write(tables.get() + item * table_floats);
      };
      auto by_key = [&](int64_t row, int64_t begin, int64_t end, int64_t) { key_pairs<T, G>(f, row, begin, end, w); };
      run_items(items, p, w, f.vectors, partial.get(), by_query, [&](int64_t row, const f32x8* sum) {
        f.dq.template write<G>(row, f.vectors, [&](int64_t c) { return sum[c] * splat(p.scale); });
      });
      run_items(items_t, pt, w, 2 * f.vectors, partial.get(), by_key, [&](int64_t row, const f32x8* sum) {
        f.dk.template write<G>(row, f.vectors, [&](int64_t c) { return sum[c] * splat(p.scale); });
        f.dv.template write<G>(row, f.vectors, [&](int64_t c) { return sum[f.vectors + c]; });
      });
#pragma omp for
      for (int64_t e = 0; e < table_floats; ++e) {
        float sum = 0.0f;
        for (int64_t i = 0; i < static_cast<int64_t>(items.size()); ++i) sum += tables.get()[i * table_floats + e];
        f.dtable[e] = sum;
      }
      stream_fence();
    }
  }
  return failed ? LH_NO_MEMORY : LH_OK;
}

template <typename T>
int backward_groups(const Backward<T>& f, int64_t groups, int64_t threads) {
  switch (groups) {
    case 1: return backward<T, 1>(f, threads);
    case 2: return backward<T, 2>(f, threads);
    case 4: return backward<T, 4>(f, threads);
  }
  return LH_UNSUPPORTED;
}

template <typename T>
Backward<T> make(const Problem& p, const Problem& pt, const void* q, int64_t q_stride, const void* k,
                 int64_t k_stride, const void* v, int64_t v_stride, const void* out, int64_t out_stride,
                 const void* dout, int64_t dout_stride, int64_t vectors, const float* lse, const float* dlse,
                 float* stats, void* dq, void* dk, void* dv, int64_t grad_stride, float* dbias, float* dtable) {
  return {p, pt, static_cast<const T*>(q), static_cast<const T*>(k), static_cast<const T*>(v),
          static_cast<const T*>(out), static_cast<const T*>(dout), q_stride, k_stride, v_stride, out_stride,
          dout_stride, vectors, lse, dlse, stats, {dq, grad_stride, p, vectors},
          {dk, grad_stride, pt, vectors}, {dv, grad_stride, pt, vectors},
          dbias, dtable};
}

}  // namespace
}  // namespace LONGHOP_VARIANT

// Argument order is that of ops/sparse_attention/native_impl.py; strides in elements of q's type.
LH_KERNEL(attention_backward)
(const int64_t* rowptr, const void* col, int64_t col_bytes, const int64_t* t_rowptr, const void* t_col,
 int64_t t_col_bytes, const void* perm, int64_t perm_bytes, int64_t rows, int64_t cols, int64_t num_global,
 int64_t heads, int64_t width, int64_t lane_heads, int64_t groups, int64_t vectors, const void* q, int64_t q_stride, const void* k,
 int64_t k_stride, const void* v, int64_t v_stride, const void* out, int64_t out_stride, const void* dout,
 int64_t dout_stride, int64_t is_bf16, const float* lse, const float* dlse, const float* bias, const void* pair_type,
 int64_t type_bytes, int64_t table_rows, const float* table, float scale, int64_t threshold, const int64_t* seed,
 const int64_t* q_ids, const int64_t* k_ids, int64_t first_group, float* stats, void* dq, void* dk, void* dv,
 int64_t grad_stride, float* dbias, float* dtable, int64_t threads) {
  using namespace LONGHOP_VARIANT;
  Problem p{};
  p.rowptr = rowptr, p.col = col, p.col_bytes = col_bytes, p.rows = rows, p.cols = cols, p.num_global = num_global;
  p.heads = heads, p.width = width, p.lane_heads = lane_heads, p.bias = bias, p.positions = bias || dbias, p.pair_type = pair_type, p.type_bytes = type_bytes;
  p.table_rows = table_rows, p.table = table, p.scale = scale;
  p.threshold = static_cast<uint16_t>(threshold);
  p.keep_scale = 65536.0f / static_cast<float>(65536 - threshold);
  if (threshold) p.keys = PhiloxKeys(*seed);
  p.row_ids = q_ids, p.col_ids = k_ids, p.first_group = first_group;
  Problem pt = p;
  pt.rowptr = t_rowptr, pt.col = t_col, pt.col_bytes = t_col_bytes, pt.perm = perm, pt.perm_bytes = perm_bytes;
  pt.rows = cols, pt.cols = rows, pt.row_ids = k_ids, pt.col_ids = q_ids, pt.transposed = true;
  if (is_bf16)
    return backward_groups(make<bf16>(p, pt, q, q_stride, k, k_stride, v, v_stride, out, out_stride, dout,
                                      dout_stride, vectors, lse, dlse, stats, dq, dk, dv, grad_stride, dbias, dtable),
                           groups, threads);
  return backward_groups(make<float>(p, pt, q, q_stride, k, k_stride, v, v_stride, out, out_stride, dout, dout_stride,
                                     vectors, lse, dlse, stats, dq, dk, dv, grad_stride, dbias, dtable),
                         groups, threads);
}
