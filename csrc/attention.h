// Softmax attention over the pairs of a graph: what forward and backward share.
//
// Heads are fastest in memory: a row of q, k or v is [D, H], so that one vector holds eight heads, a score
// is D multiply-adds with no horizontal sum, and a softmax weight multiplies v without a broadcast. With
// fewer than eight heads (1, 2 or 4) a vector holds several d of every head: lane l belongs to head l mod H,
// and fold() adds the lanes of a head so that each of them holds the full score. With more, a row has
// GROUPS = H / 8 vectors for every d.
//
// Pairs are visited in blocks of at most BLOCK: a block's scores stay in L1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <new>

#include "common.h"
#include "lanes.h"
#include "philox.h"
#include "simd.h"

namespace LONGHOP_VARIANT {

constexpr int64_t BLOCK = 64;
constexpr int64_t AHEAD = 16;           // rows of k and v are asked for this many pairs ahead
constexpr int64_t ROWS_AHEAD = 4;       // a row's own vectors are asked for this many rows ahead
constexpr int64_t GRAIN = 4096;         // pairs a work item
constexpr int64_t LONGEST = 4096;       // pairs of a row that one thread takes in one go

// Natural logarithm of a positive number (cephes' logf scheme), relative error about 1e-7.
static inline f32x8 log8(f32x8 x) {
  const u32x8 raw = (u32x8)x;
  i32x8 e = (i32x8)(raw >> 23) - 126;
  f32x8 m = (f32x8)((raw & 0x007fffffu) | 0x3f000000u);  // [0.5, 1)
  const i32x8 low = m < splat(0.70710678f);
  e = e + low;  // low is -1 where true
  m = select8(low, m + m, m) - splat(1.0f);
  const f32x8 z = m * m;
  f32x8 p = splat(7.0376836292e-2f);
  const float c[8] = {-1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                      -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f};
  for (float ci : c) p = p * m + splat(ci);
  const f32x8 ef = __builtin_convertvector(e, f32x8);
  f32x8 y = m * z * p + ef * splat(-2.12194440e-4f) - splat(0.5f) * z;
  return m + y + ef * splat(0.693359375f);
}

// Adds the lanes that belong to one head and leaves the sum in each of them.
static inline f32x8 fold(f32x8 v, int64_t lane_heads) {
  typedef int32_t ix __attribute__((vector_size(32)));
  if (lane_heads <= 4) v += __builtin_shuffle(v, ix{4, 5, 6, 7, 0, 1, 2, 3});
  if (lane_heads <= 2) v += __builtin_shuffle(v, ix{2, 3, 0, 1, 6, 7, 4, 5});
  if (lane_heads <= 1) v += __builtin_shuffle(v, ix{1, 0, 3, 2, 5, 4, 7, 6});
  return v;
}

// What one call attends over, and how scores are made. All pointers stay the caller's.
struct Problem {
  const int64_t* rowptr;  // [rows + 1]
  const void* col;        // [E] int32 or int64
  int64_t col_bytes;
  const void* perm;       // null, or [E]: position of a pair in the caller's order (transposed walk)
  int64_t perm_bytes;
  int64_t rows;           // rows of the CSR; the num_global rows after them see every column
  int64_t cols;           // columns of the CSR; the num_global columns after them are seen by every row
  int64_t num_global;
  int64_t heads;          // as the caller counts them; lanes beyond are padding
  int64_t width;          // D of the caller; what vectors hold beyond is padding
  int64_t lane_heads;     // 1, 2, 4 or 8: heads in one vector
  int64_t first_group;    // heads of this call begin at head 8 * first_group of the caller's
  const float* bias;      // null, or [E, heads]
  const void* pair_type;  // null, or [E] of type_bytes
  int64_t type_bytes;
  int64_t table_rows;     // T
  // Null, or [T + 2 * num_global, 8 * GROUPS] lanes: pair types (all 0 without pair_type), globals as key, as query.
  const float* table;
  float scale;
  uint16_t threshold;     // dropout: a 16-bit lane below it is dropped; 0 = no dropout
  float keep_scale;
  PhiloxKeys keys;        // of the rounds, where threshold is not 0
  const int64_t* row_ids; // null = row numbers
  const int64_t* col_ids;
  bool transposed;        // rows are keys, columns are queries
  bool positions;         // of pairs among the caller's are needed: for bias or its gradient

  // Nothing but q.k in full vectors: the loops that most runs spend their time in are compiled without the rest.
  bool plain() const { return !bias && !table && !threshold && lane_heads == 8; }

  int64_t row_length(int64_t row) const {
    return row < rows ? rowptr[row + 1] - rowptr[row] + num_global : cols + num_global;
  }
};

// n indices from position `first` on, as 64-bit numbers.
static inline void copy_indices(const void* from, int64_t bytes, int64_t first, int64_t n, int64_t* to) {
  if (bytes == 8)
    std::memcpy(to, static_cast<const int64_t*>(from) + first, n * sizeof(int64_t));
  else
    widen_indices(static_cast<const int32_t*>(from) + first, n, to);
}

// Types of n pairs: those at positions `at`, or from `first` on.
template <typename Type>
static inline void copy_types(const void* types, int64_t first, int64_t n, const int64_t* at, int32_t* __restrict out) {
  const Type* from = static_cast<const Type*>(types);
  if (at)
    for (int64_t t = 0; t < n; ++t) out[t] = from[at[t]];
  else
    for (int64_t t = 0; t < n; ++t) out[t] = from[first + t];
}
static inline void fill_types(const Problem& p, int64_t first, int64_t n, const int64_t* at, int32_t* out) {
  if (!p.pair_type) return std::fill_n(out, n, 0), void();
  if (p.type_bytes == 1) return copy_types<uint8_t>(p.pair_type, first, n, at, out);
  if (p.type_bytes == 2) return copy_types<uint16_t>(p.pair_type, first, n, at, out);
  copy_types<int32_t>(p.pair_type, first, n, at, out);
}

// What is known of a stretch of the CSR's pairs, read once for many rows; see Block for the arrays.
struct Window {
  static constexpr int64_t ROOM = 256;
  const void* source = nullptr;  // whose columns
  int64_t begin = 0, end = 0;    // positions in the CSR
  int64_t index[ROOM + 8], at[ROOM + 8];  // 8: room for whole vectors
  int32_t type[ROOM + 8];

  // Makes the window hold pairs [first, first + n) and the columns of AHEAD more; past the CSR's end the last one
  // repeats. Returns where `first` is in the arrays.
  int64_t cover(const Problem& p, int64_t first, int64_t n) {
    if (source != p.col || first < begin || first + n + AHEAD > end) fill(p, first);
    return first - begin;
  }

 private:
  void fill(const Problem& p, int64_t first) {
    source = p.col, begin = first, end = first + ROOM;
    const int64_t have = std::min(ROOM, p.rowptr[p.rows] - first);
    copy_indices(p.col, p.col_bytes, first, have, index);
    std::fill(index + have, index + ROOM, index[have - 1]);
    const bool permuted = p.perm && p.pair_type;
    if (permuted || (p.perm && p.positions))
      copy_indices(p.perm, p.perm_bytes, first, have, at);
    else if (p.positions)
      for (int64_t t = 0; t < have; ++t) at[t] = first + t;
    if (p.table) fill_types(p, first, have, permuted ? at : nullptr, type);
  }
};

// One block of pairs of one row.
struct Block {
  int64_t n;
  const int64_t* index;  // columns; AHEAD of them beyond n, what the CSR holds next, for prefetching
  const int64_t* at;     // where asked for: position among the caller's pairs, -1 with a global token
  const int32_t* type;   // row of the table
  // By group of eight heads, eight lanes a pair: all bits set where the pair is kept. BLOCK is a multiple of 8.
  alignas(32) uint16_t keep[4][8 * BLOCK];
  Window window;
  // The arrays of a block that holds pairs with global tokens.
  int64_t own_index[BLOCK + AHEAD + 8], own_at[BLOCK + 8];
  int32_t own_type[BLOCK + 8];
};

// Copies n numbers in whole vectors: the arrays have room for one more.
template <typename N>
static inline void copy_vectors(const N* from, int64_t n, N* to) {
  constexpr int64_t LANES = 32 / sizeof(N);
  for (int64_t t = 0; t < n; t += LANES) std::memcpy(to + t, from + t, 32);
}

// Row of the table for a pair with a global token; one with a global key counts as "as key", also when the query is
// global too.
static inline int32_t global_type(const Problem& p, int64_t row, int64_t column) {
  const int64_t query = p.transposed ? column : row, key = p.transposed ? row : column;
  const int64_t query_nodes = p.transposed ? p.cols : p.rows, key_nodes = p.transposed ? p.rows : p.cols;
  const int64_t entry = key >= key_nodes ? key - key_nodes : p.num_global + query - query_nodes;
  return static_cast<int32_t>(p.table_rows + entry);
}

// Fills a block of n pairs, of which the first from_csr are in the CSR, at `first`; the others are the row's pairs
// with global tokens, or all pairs of a global row. `other` is the first of their columns.
static inline void fill_mixed(const Problem& p, int64_t row, int64_t n, int64_t first, int64_t from_csr,
                              int64_t other, Block& b) {
  const int64_t last = p.cols + p.num_global - 1;
  if (from_csr) {
    const int64_t offset = b.window.cover(p, first, from_csr);
    copy_vectors(b.window.index + offset, from_csr, b.own_index);
    copy_vectors(b.window.index + offset + from_csr, AHEAD, b.own_index + n);
    if (p.positions) copy_vectors(b.window.at + offset, from_csr, b.own_at);
    if (p.table) copy_vectors(b.window.type + offset, from_csr, b.own_type);
  } else {
    for (int64_t t = n; t < n + AHEAD; ++t) b.own_index[t] = std::min(other + t, last);
  }
  for (int64_t t = from_csr; t < n; ++t) {
    b.own_index[t] = other + t - from_csr;
    b.own_type[t] = global_type(p, row, b.own_index[t]);
    b.own_at[t] = -1;
  }
  b.index = b.own_index, b.at = b.own_at, b.type = b.own_type;
}

// Fills pairs [begin, begin + n) of `row`, counted from the row's first pair; n > 0.
static inline void fill_block(const Problem& p, int64_t row, int64_t begin, int64_t n, Block& b) {
  b.n = n;
  const bool global_row = row >= p.rows;
  const int64_t base = global_row ? 0 : p.rowptr[row];
  const int64_t stored = global_row ? 0 : p.rowptr[row + 1] - base;  // pairs of the CSR
  const int64_t from_csr = std::clamp<int64_t>(stored - begin, 0, n);
  if (from_csr < n) {
    const int64_t other = (global_row ? 0 : p.cols) + std::max<int64_t>(begin - stored, 0);
    return fill_mixed(p, row, n, base + begin, from_csr, other, b);
  }
  const int64_t offset = b.window.cover(p, base + begin, n);
  b.index = b.window.index + offset, b.at = b.window.at + offset, b.type = b.window.type + offset;
}

// Repeats the first `heads` of eight lanes over all of them.
static inline void spread_lanes(uint16_t* lanes, int64_t heads) {
  for (int64_t l = heads; l < 8; ++l) lanes[l] = lanes[l - heads];
}

// Identities of the columns of pairs t .. t + 3, also past the block's end, where `index` is valid too.
static inline u64x4 column_ids(const Problem& p, const Block& b, int64_t t) {
  u64x4 at;
  std::memcpy(&at, b.index + t, sizeof at);
  if (p.col_ids)
    for (int l = 0; l < 4; ++l) at[l] = static_cast<uint64_t>(p.col_ids[at[l]]);
  return at;
}

// Dropout of a block: Philox keyed by the identities of query and key (see docs/design/attention.md).
static inline void fill_keep(const Problem& p, int64_t row, int groups, Block& b) {
  const u64x4 row_id = u64x4{} + static_cast<uint64_t>(p.row_ids ? p.row_ids[row] : row);
  const auto counter = [&](u64x4 col_id, u64x4 group) {
    const u64x4 query = p.transposed ? col_id : row_id, key = p.transposed ? row_id : col_id;
    return PhiloxWords{query, key, ((query >> 32) & 0xffff) | ((key >> 32) & 0xffff) << 16, group};
  };
  for (int64_t t = 0; t < b.n; t += 8) {
    const u64x4 front = column_ids(p, b, t), back = column_ids(p, b, t + 4);
    for (int g = 0; g < groups; ++g) {
      const u64x4 group = u64x4{} + static_cast<uint64_t>(p.first_group + g);
      PhiloxWords w = counter(front, group), v = counter(back, group);
      philox4x2(p.keys, w, v);
      philox_kept(w, p.threshold, b.keep[g] + 8 * t);
      philox_kept(v, p.threshold, b.keep[g] + 8 * t + 32);
    }
  }
  if (p.lane_heads < 8)
    for (int64_t t = 0; t < b.n; ++t) spread_lanes(b.keep[0] + 8 * t, p.lane_heads);
}

// Lane l of group g holds head 8 g + l, or l mod lane_heads below eight heads; padding lanes hold 0.
static inline f32x8 load_lanes(const float* p, int64_t heads, int64_t lane_heads, int g) {
  if (lane_heads == 8 && 8 * g + 8 <= heads) return load8(p + 8 * g);
  f32x8 v = zero8();
  for (int l = 0; l < 8; ++l) {
    const int64_t h = lane_heads == 8 ? 8 * g + l : l % lane_heads;
    v[l] = h < heads ? p[h] : 0.0f;
  }
  return v;
}
static inline void store_lanes(float* p, f32x8 v, int64_t heads, int g) {
  if (8 * g + 8 <= heads) return store8(p + 8 * g, v);
  for (int l = 0; 8 * g + l < heads; ++l) p[8 * g + l] = v[l];
}

// Asks for the chunk of a row that will be gathered AHEAD pairs later.
template <typename T, int C>
static inline void prefetch_chunk(const T* base, int64_t stride, const int64_t* index, int64_t t) {
  const char* next = reinterpret_cast<const char*>(base + index[t + AHEAD] * stride);
  for (int64_t at = 0; at < static_cast<int64_t>(C * 8 * sizeof(T)); at += 64) __builtin_prefetch(next + at, 0, 3);
}

// Where a chunk stands in its row. A full chunk that is the only one (8 x 8, 4 x 16) has code of its own.
enum class Chunk { ONLY, FIRST, MIDDLE, LAST };

// Scores of a chunk: acc[g] = sum over C vectors of X[c] * row(t)[c], on top of S[t, g] after the first chunk. The
// last chunk hands acc to finish(t, acc). `also` is a second row that the pair needs soon.
template <typename T, int G, int C, bool ONLY, typename Finish>
static inline void dot_chunk(Chunk where, const f32x8* X, const T* base, int64_t stride, const Block& b, f32x8* S,
                             const T* also, int64_t also_stride, Finish&& finish) {
  const bool first = ONLY || where == Chunk::FIRST || where == Chunk::ONLY;
  const bool last = ONLY || where == Chunk::LAST || where == Chunk::ONLY;
  f32x8 x[C];
  for (int c = 0; c < C; ++c) x[c] = X[c];
  const int64_t n = b.n, *index = b.index;  // copies: stores in the loop could change b's
  for (int64_t t = 0; t < n; ++t) {
    prefetch_chunk<T, C>(base, stride, index, t);
    if (also) prefetch_chunk<T, C>(also, also_stride, index, t);
    const T* row = base + index[t] * stride;
    constexpr int A = (G == 1 && C >= 4) ? 2 : G;  // two chains hide the latency of the adds
    f32x8 acc[A];
    for (int a = 0; a < A; ++a) acc[a] = first || a >= G ? zero8() : S[t * G + a];
    for (int c = 0; c < C; ++c) acc[c % A] += x[c] * load8(row + 8 * c);
    if (A > G) acc[0] += acc[A - 1];
    if (last)
      finish(t, acc);
    else
      for (int g = 0; g < G; ++g) S[t * G + g] = acc[g];
  }
}

// Y[c] += sum over t of P[t, c mod G] * row(t)[c]; the first chunk computes P[t, g] = weight(t, g), for later ones.
// A `fresh` Y holds nothing yet.
template <typename T, int G, int C, bool ONLY, typename Weight>
static inline void axpy_chunk(Chunk where, bool fresh, f32x8* Y, const T* base, int64_t stride, const Block& b,
                              f32x8* P, Weight&& weight) {
  const bool first = ONLY || where == Chunk::FIRST || where == Chunk::ONLY;
  f32x8 y[C];
  for (int c = 0; c < C; ++c) y[c] = fresh ? zero8() : Y[c];
  const int64_t n = b.n, *index = b.index;
  for (int64_t t = 0; t < n; ++t) {
    const T* row = base + index[t] * stride;
    f32x8 w[G];
    for (int g = 0; g < G; ++g) {
      w[g] = first ? weight(t, g) : P[t * G + g];
      if (!ONLY) P[t * G + g] = w[g];
    }
    for (int c = 0; c < C; ++c) y[c] += w[c % G] * load8(row + 8 * c);
  }
  for (int c = 0; c < C; ++c) Y[c] = y[c];
}

// Calls f(width, offset, where) over all vectors of a row, in the widest chunks that registers hold.
template <int G, typename F>
static inline void for_chunks(int64_t vectors, F&& f) {
  constexpr int WIDE = 8;
  int64_t c = 0;
  auto run = [&](auto width) {
    constexpr int C = decltype(width)::value;
    for (; c + C <= vectors; c += C) {
      const bool first = c == 0, last = c + C == vectors;
      f(width, c, first && last ? Chunk::ONLY : first ? Chunk::FIRST : last ? Chunk::LAST : Chunk::MIDDLE);
    }
  };
  run(std::integral_constant<int, WIDE>{});
  if constexpr (G == 1) run(std::integral_constant<int, 4>{}), run(std::integral_constant<int, 2>{});
  run(std::integral_constant<int, G>{});
}

template <typename T, int G, typename Finish>
static inline void dots(const f32x8* X, const T* base, int64_t stride, int64_t vectors, const Block& b, f32x8* S,
                        const T* also, int64_t also_stride, Finish&& finish) {
  for_chunks<G>(vectors, [&](auto width, int64_t c, Chunk where) {
    constexpr int C = decltype(width)::value;
    const T *rows = base + 8 * c, *second = also ? also + 8 * c : nullptr;
    if (C == 8 && where == Chunk::ONLY)
      dot_chunk<T, G, 8, true>(where, X, rows, stride, b, S, second, also_stride, finish);
    else
      dot_chunk<T, G, C, false>(where, X + c, rows, stride, b, S, second, also_stride, finish);
  });
}

template <typename T, int G, typename Weight>
static inline void axpys(bool fresh, f32x8* Y, const T* base, int64_t stride, int64_t vectors, const Block& b,
                         f32x8* P, Weight&& weight) {
  for_chunks<G>(vectors, [&](auto width, int64_t c, Chunk where) {
    constexpr int C = decltype(width)::value;
    if (C == 8 && where == Chunk::ONLY)
      axpy_chunk<T, G, 8, true>(where, fresh, Y, base, stride, b, P, weight);
    else
      axpy_chunk<T, G, C, false>(where, fresh, Y + c, base + 8 * c, stride, b, P, weight);
  });
}

// Scores from raw dot products: lanes of a head folded, bias and table added. Holds copies, so that no store of the
// loop around it makes the compiler read them again.
template <int G>
struct FinishScore {
  const float *bias, *table;
  const int64_t* at;
  const int32_t* type;
  int64_t heads, lane_heads;

  FinishScore(const Problem& p, const Block& b)
      : bias(p.bias), table(p.table), at(b.at), type(b.type), heads(p.heads), lane_heads(p.lane_heads) {}

  void operator()(int64_t t, f32x8* s) const {
    if (lane_heads < 8) s[0] = fold(s[0], lane_heads);
    if (bias && at[t] >= 0)
      for (int g = 0; g < G; ++g) s[g] += load_lanes(bias + at[t] * heads, heads, lane_heads, g);
    if (table)
      for (int g = 0; g < G; ++g) s[g] += load8(table + (static_cast<int64_t>(type[t]) * G + g) * 8);
  }
};

// Asks for what row + ROWS_AHEAD will read of its own.
template <typename T>
static inline void prefetch_row(const T* base, int64_t stride, int64_t vectors, int64_t row, const Problem& p) {
  const int64_t next = std::min(row + ROWS_AHEAD, p.rows + p.num_global - 1);
  prefetch_bytes(base + next * stride, vectors * 8 * sizeof(T));
}

// An output's rows [D, H] without padding, `stride` elements apart; written around the cache where they would only
// push others out of it.
template <typename T>
struct RowWriter {
  T* base;
  int64_t stride, heads, lane_heads, numbers;
  bool padded, stream;

  // For the rows of `p`, whose vectors number `vectors` a row.
  RowWriter(void* out, int64_t stride, const Problem& p, int64_t vectors)
      : base(static_cast<T*>(out)), stride(stride), heads(p.heads), lane_heads(p.lane_heads),
        numbers(p.heads * p.width), padded(numbers != 8 * vectors) {
    const int64_t bytes = (p.rows + p.num_global) * numbers * static_cast<int64_t>(sizeof(T));
    stream = !padded && stride % 8 == 0 && worth_streaming(out, bytes);
  }

  // Writes value(c) for every vector c of the G that each d (or, below eight heads, each few d) takes.
  template <int G, typename Value>
  void write(int64_t row, int64_t vectors, Value&& value) const {
    T* to = base + row * stride;
    if (padded) return write_padded<G>(to, vectors, value);
    if (stream)
      for (int64_t c = 0; c < vectors; ++c) stream8(to + 8 * c, value(c));
    else
      for (int64_t c = 0; c < vectors; ++c) store8(to + 8 * c, value(c));
  }

 private:
  // Whole vectors, or quarters and halves of one, are stored from left to right: what spills over from the padding is
  // overwritten by the next, and only the row's last numbers are stored one by one.
  template <int G, typename Value>
  void write_padded(T* to, int64_t vectors, Value&& value) const {
    for (int64_t c = 0; c < vectors; ++c) {
      const f32x8 v = value(c);
      if (lane_heads == 8) {
        if (c % G * 8 < heads) store_before(to, c / G * heads + c % G * 8, v);
      } else if (heads == lane_heads) {
        store_before(to, 8 * c, v);
      } else {  // three heads in four lanes
        store_before<4>(to, 2 * c * heads, v);
        store_before<4>(to, (2 * c + 1) * heads, __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7));
      }
    }
  }

  // Stores the first N lanes at `at`, as far as the row goes.
  template <int N = 8>
  void store_before(T* to, int64_t at, f32x8 v) const {
    if (at + N <= numbers)
      store_part<N>(to + at, v);
    else if (at < numbers)
      store_some(to + at, v, numbers - at);
  }
};

template <typename T>
static inline void load_row(f32x8* X, const T* row, int64_t vectors, float scale) {
  for (int64_t c = 0; c < vectors; ++c) X[c] = load8(row + 8 * c) * splat(scale);
}

// Work items over all rows: those of the CSR, then the global rows in parts.
static inline std::vector<WorkItem> cut_problem(const Problem& p) {
  std::vector<WorkItem> items = cut_rows(p.rowptr, p.rows, GRAIN, LONGEST, p.num_global);
  int64_t parts = 0;
  for (WorkItem& item : items) {
    if (item.part < 0) continue;
    parts = item.part + 1;
    // From positions in the CSR to pairs counted from the row's first; the last part takes the globals.
    const bool last = item.end == p.rowptr[item.row + 1];
    item.begin -= p.rowptr[item.row];
    item.end -= p.rowptr[item.row];
    if (last) item.end += p.num_global;
  }
  for (int64_t g = 0; g < p.num_global; ++g)
    for (int64_t begin = 0; begin < p.cols + p.num_global; begin += LONGEST)
      items.push_back({p.rows + g, p.rows + g + 1, begin, std::min(begin + LONGEST, p.cols + p.num_global), parts++});
  return items;
}
static inline int64_t count_parts(const std::vector<WorkItem>& items) {
  int64_t parts = 0;
  for (const WorkItem& item : items) parts = std::max(parts, item.part + 1);
  return parts;
}

// 64-byte aligned scratch memory; empty when the system has none.
template <typename T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : data_(count > 0 ? static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64)) : nullptr) {}
  ~Scratch() { std::free(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* get() const { return data_; }

 private:
  T* data_;
};

}  // namespace LONGHOP_VARIANT
