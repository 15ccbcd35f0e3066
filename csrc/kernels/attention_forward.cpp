// Forward of graph attention: one online softmax a row, rows cut by pairs, long rows merged by lse.
#include "attention.h"

namespace LONGHOP_VARIANT {
namespace {

template <typename T>
struct Forward {
  Problem p;
  const T *q, *k, *v;
  int64_t q_stride, k_stride, v_stride, vectors;  // strides in elements; vectors of eight in a row
  RowWriter<T> out;
  float* lse;  // [rows + num_global, heads]
};

// Running softmax of one row: maximum, sum of exp(s - maximum), and the weighted sum of v.
template <int G>
struct Running {
  f32x8 maximum[G], sum[G];
  f32x8* weighted;  // [vectors]

  void clear(int64_t vectors) {
    for (int g = 0; g < G; ++g) maximum[g] = splat(-INFINITY), sum[g] = zero8();
    std::fill(weighted, weighted + vectors, zero8());
  }
};

// exp(a - b) with exp(-inf - -inf) = 0: a row that has no pair yet weighs nothing.
inline f32x8 exp_difference(f32x8 a, f32x8 b) {
  const i32x8 empty = a == splat(-INFINITY);
  return select8(empty, zero8(), exp8(a - select8(empty, zero8(), b)));
}

template <int G>
void shrink(Running<G>& r, int g, f32x8 factor, int64_t vectors) {
  r.sum[g] *= factor;
  for (int64_t c = g; c < vectors; c += G) r.weighted[c] *= factor;
}

// A row's first block finds `r` as another row left it.
template <typename T, int G, bool PLAIN>
void add_block(const Forward<T>& f, int64_t row, bool first, const f32x8* Q, Block& b, f32x8* S, Running<G>& r) {
  f32x8 top[G], around[G], sum[G];
  for (int g = 0; g < G; ++g) top[g] = first ? splat(-INFINITY) : r.maximum[g];
  const FinishScore<G> finish(f.p, b);
  dots<T, G>(Q, f.k, f.k_stride, f.vectors, b, S, f.v, f.v_stride, [&](int64_t t, f32x8* s) {
    if constexpr (!PLAIN) finish(t, s);
    for (int g = 0; g < G; ++g) {
      S[t * G + g] = s[g];
      top[g] = max8(top[g], s[g]);
    }
  });
  for (int g = 0; g < G; ++g) {
    sum[g] = zero8();
    around[g] = select8(top[g] == splat(-INFINITY), zero8(), top[g]);
    if (!first) shrink(r, g, exp_difference(r.maximum[g], top[g]), f.vectors);
    r.maximum[g] = top[g];
  }
  const bool drops = !PLAIN && f.p.threshold;
  const float scale = f.p.keep_scale;
  if (drops) fill_keep(f.p, row, G, b);
  axpys<T, G>(first, r.weighted, f.v, f.v_stride, f.vectors, b, S, [&, drops, scale](int64_t t, int g) {
    const f32x8 w = exp8(S[t * G + g] - around[g]);
    sum[g] += w;
    return drops ? w * kept_scale8(b.keep[g] + 8 * t, scale) : w;
  });
  for (int g = 0; g < G; ++g) r.sum[g] = first ? sum[g] : r.sum[g] + sum[g];
}

template <typename T, int G>
void run_pairs(const Forward<T>& f, int64_t row, int64_t begin, int64_t end, f32x8* Q, Block& b, f32x8* S,
               Running<G>& r) {
  prefetch_row(f.q, f.q_stride, f.vectors, row, f.p);
  if (begin == end) r.clear(f.vectors);
  load_row(Q, f.q + row * f.q_stride, f.vectors, f.p.scale);
  for (int64_t at = begin; at < end; at += BLOCK) {
    fill_block(f.p, row, at, std::min(BLOCK, end - at), b);
    if (f.p.plain())
      add_block<T, G, true>(f, row, at == begin, Q, b, S, r);
    else
      add_block<T, G, false>(f, row, at == begin, Q, b, S, r);
  }
}

template <typename T, int G>
void write_row(const Forward<T>& f, int64_t row, const Running<G>& r) {
  f32x8 inverse[G];
  for (int g = 0; g < G; ++g) {
    const i32x8 empty = r.sum[g] == zero8();
    inverse[g] = select8(empty, zero8(), splat(1.0f) / r.sum[g]);
    const f32x8 value = r.maximum[g] + log8(select8(empty, splat(1.0f), r.sum[g]));
    store_lanes(f.lse + row * f.p.heads, select8(empty, splat(-INFINITY), value), f.p.heads, g);
  }
  f.out.template write<G>(row, f.vectors, [&](int64_t c) { return r.weighted[c] * inverse[c % G]; });
}

// Parts of one long row -> its output, in the order of the parts.
template <typename T, int G>
void merge_parts(const Forward<T>& f, int64_t row, const f32x8* parts, int64_t count, Running<G>& r) {
  r.clear(f.vectors);
  const int64_t size = 2 * G + f.vectors;
  for (int64_t i = 0; i < count; ++i) {
    const f32x8* part = parts + i * size;
    for (int g = 0; g < G; ++g) {
      const f32x8 top = max8(r.maximum[g], part[g]);
      const f32x8 mine = exp_difference(r.maximum[g], top), theirs = exp_difference(part[g], top);
      r.sum[g] = r.sum[g] * mine + part[G + g] * theirs;
      for (int64_t c = g; c < f.vectors; c += G) r.weighted[c] = r.weighted[c] * mine + part[2 * G + c] * theirs;
      r.maximum[g] = top;
    }
  }
  write_row<T, G>(f, row, r);
}

template <typename T, int G>
int forward(const Forward<T>& f, int64_t threads) {
  const std::vector<WorkItem> items = cut_problem(f.p);
  const int64_t count = static_cast<int64_t>(items.size());
  const int64_t part_size = 2 * G + f.vectors, parts = count_parts(items);
  Scratch<f32x8> partial(parts * part_size);
  if (parts && !partial.get()) return LH_NO_MEMORY;
  bool failed = false;
#pragma omp parallel num_threads(threads) if (f.p.rowptr[f.p.rows] + f.p.rows > 2048)
  {
    Scratch<f32x8> memory(2 * f.vectors + BLOCK * G);
    Block block;
    Running<G> r;
    f32x8 *Q = memory.get(), *S = Q + 2 * f.vectors;
    r.weighted = Q + f.vectors;
    if (!Q) {
#pragma omp atomic write
      failed = true;
    }
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < count; ++i) {
      if (!Q) continue;
      const WorkItem& item = items[i];
      if (item.part < 0) {
        for (int64_t row = item.row; row < item.row_end; ++row) {
          run_pairs<T, G>(f, row, 0, f.p.row_length(row), Q, block, S, r);
          write_row<T, G>(f, row, r);
        }
        continue;
      }
      run_pairs<T, G>(f, item.row, item.begin, item.end, Q, block, S, r);
      f32x8* part = partial.get() + item.part * part_size;
      for (int g = 0; g < G; ++g) part[g] = r.maximum[g], part[G + g] = r.sum[g];
      std::copy(r.weighted, r.weighted + f.vectors, part + 2 * G);
    }
#pragma omp for schedule(dynamic, 16)
    for (int64_t i = 0; i < count; ++i) {
      if (!Q || items[i].part < 0 || items[i].begin > 0) continue;
      int64_t last = i;
      while (last < count && items[last].row == items[i].row) ++last;
      merge_parts<T, G>(f, items[i].row, partial.get() + items[i].part * part_size, last - i, r);
    }
    stream_fence();
  }
  return failed ? LH_NO_MEMORY : LH_OK;
}

template <typename T>
int forward_groups(const Forward<T>& f, int64_t groups, int64_t threads) {
  switch (groups) {
    case 1: return forward<T, 1>(f, threads);
    case 2: return forward<T, 2>(f, threads);
    case 4: return forward<T, 4>(f, threads);
  }
  return LH_UNSUPPORTED;
}

template <typename T>
Forward<T> make(const Problem& p, const void* q, const void* k, const void* v, int64_t q_stride, int64_t k_stride,
                int64_t v_stride, int64_t vectors, void* out, int64_t out_stride, float* lse) {
  return {p, static_cast<const T*>(q), static_cast<const T*>(k), static_cast<const T*>(v), q_stride, k_stride,
          v_stride, vectors, {out, out_stride, p, vectors}, lse};
}

}  // namespace
}  // namespace LONGHOP_VARIANT

// Argument order is that of ops/sparse_attention/native_impl.py; strides in elements of q's type.
LH_KERNEL(attention_forward)
(const int64_t* rowptr, const void* col, int64_t col_bytes, int64_t rows, int64_t cols, int64_t num_global,
 int64_t heads, int64_t width, int64_t lane_heads, int64_t groups, int64_t vectors, const void* q, int64_t q_stride, const void* k,
 int64_t k_stride, const void* v, int64_t v_stride, int64_t is_bf16, const float* bias, const void* pair_type,
 int64_t type_bytes, int64_t table_rows, const float* table, float scale, int64_t threshold, const int64_t* seed,
 const int64_t* q_ids, const int64_t* k_ids, int64_t first_group, void* out, int64_t out_stride, float* lse, int64_t threads) {
  using namespace LONGHOP_VARIANT;
  Problem p{};
  p.rowptr = rowptr, p.col = col, p.col_bytes = col_bytes, p.rows = rows, p.cols = cols, p.num_global = num_global;
  p.heads = heads, p.width = width, p.lane_heads = lane_heads, p.bias = bias, p.positions = bias, p.pair_type = pair_type, p.type_bytes = type_bytes;
  p.table_rows = table_rows, p.table = table, p.scale = scale;
  p.threshold = static_cast<uint16_t>(threshold);
  p.keep_scale = 65536.0f / static_cast<float>(65536 - threshold);
  if (threshold) p.keys = PhiloxKeys(*seed);
  p.row_ids = q_ids, p.col_ids = k_ids, p.first_group = first_group;
  if (is_bf16)
    return forward_groups(
        make<bf16>(p, q, k, v, q_stride, k_stride, v_stride, vectors, out, out_stride, lse), groups, threads);
  return forward_groups(make<float>(p, q, k, v, q_stride, k_stride, v_stride, vectors, out, out_stride, lse), groups,
                        threads);
}
