// Pairs of a work item, staged: where each pair's row starts and what it is multiplied by.
//
// A first, simple loop reads index types, permutations and weights and checks their bounds; the inner
// loops behind it see plain offsets and coefficients, whatever those came from.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "common.h"
#include "lanes.h"
#include "wide.h"

namespace LONGHOP_VARIANT {

constexpr int64_t GRAIN = 1024;    // pairs of a work item
constexpr int64_t LONGEST = 4096;  // pairs of a row that is not cut

// The pairs of a call: CSR rows and what weighs each of their pairs.
struct Pairs {
  const int64_t* rowptr;
  int64_t num_rows;
  const void* col;   // null: pair e reads source row e
  const void* perm;  // null: pair e is number e of the weights, else number perm[e]
  bool wide;         // col and perm are int64, else int32
  int64_t num_pairs, num_sources;
  const float* weight;        // null: ones
  const float* source_scale;  // null: ones; multiplies every pair that reads the source row

  int64_t length(int64_t row) const { return rowptr[row + 1] - rowptr[row]; }
  int64_t source(int64_t e) const {
    return col == nullptr ? e : wide ? static_cast<const int64_t*>(col)[e] : static_cast<const int32_t*>(col)[e];
  }
};

inline bool offsets_valid(const Pairs& p) {
  bool good = p.rowptr[0] == 0 && p.rowptr[p.num_rows] == p.num_pairs;
  for (int64_t row = 0; row < p.num_rows; ++row) good &= p.rowptr[row] <= p.rowptr[row + 1];
  return good;
}

// How many pairs ahead to prefetch: enough bytes in flight to cover the latency of memory.
inline int64_t prefetch_distance(int64_t row_bytes) { return row_bytes <= 256 ? 24 : 16; }

// One thread's staged pairs; `ahead` entries behind the last pair repeat it for the prefetches.
struct Stage {
  int64_t* offset;    // of the pair's source row, in elements
  float* coef;        // weight * source_scale
  int64_t* position;  // number of the pair: perm[e], or e
};

template <class Index>
bool stage_pairs(const Pairs& p, int64_t begin, int64_t end, int64_t stride, int64_t ahead, const Stage& s) {
  const Index* col = static_cast<const Index*>(p.col);
  const Index* perm = static_cast<const Index*>(p.perm);
  const int64_t count = end - begin;
  const uint64_t sources = static_cast<uint64_t>(p.num_sources), pairs = static_cast<uint64_t>(p.num_pairs);
  bool good = true;
  for (int64_t n = 0; n < count; ++n) {
    const int64_t j = col ? static_cast<int64_t>(col[begin + n]) : begin + n;
    good &= static_cast<uint64_t>(j) < sources;
    s.offset[n] = j * stride;
    s.coef[n] = 1.0f;
  }
  if (!good) return false;
  for (int64_t n = 0; n < count; ++n) s.position[n] = begin + n;
  if (perm)
    for (int64_t n = 0; n < count; ++n) {
      s.position[n] = perm[begin + n];
      good &= static_cast<uint64_t>(s.position[n]) < pairs;
    }
  if (!good) return false;
  if (p.weight)
    for (int64_t n = 0; n < count; ++n) s.coef[n] = p.weight[s.position[n]];
  if (p.source_scale)
    for (int64_t n = 0; n < count; ++n) s.coef[n] *= p.source_scale[p.source(begin + n)];
  for (int64_t n = 0; n < ahead && count > 0; ++n) s.offset[count + n] = s.offset[count - 1];
  return true;
}

// Work items of a call, and the buffers that its threads stage pairs in.
class Plan {
 public:
  Plan(const Pairs& pairs, int64_t row_bytes, int64_t threads)
      : pairs(pairs), ahead(prefetch_distance(row_bytes)) {
    items = cut_rows(pairs.rowptr, pairs.num_rows, GRAIN, LONGEST);
    for (const WorkItem& item : items) {
      if (item.part >= 0) ++num_parts;
      room_ = std::max(room_, item.end - item.begin + ahead);
    }
    num_threads = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads, items.size())));
    offset_.resize(num_threads * room_);
    position_.resize(num_threads * room_);
    coef_.resize(num_threads * room_);
  }

  Stage stage() {
    const int64_t at = omp_get_thread_num() * room_;
    return {offset_.data() + at, coef_.data() + at, position_.data() + at};
  }

  // Stages an item's pairs; false, from then on for good, when an index was out of range.
  bool fill(const WorkItem& item, int64_t stride, const Stage& stage) {
    const bool good = pairs.wide ? stage_pairs<int64_t>(pairs, item.begin, item.end, stride, ahead, stage)
                                 : stage_pairs<int32_t>(pairs, item.begin, item.end, stride, ahead, stage);
    if (!good) bad_.store(true, std::memory_order_relaxed);
    return good;
  }

  // Calls run(item, stage) for every item whose indices are valid.
  template <class Run>
  void for_each_item(int64_t stride, const Run& run) {
    const int64_t num_items = static_cast<int64_t>(items.size());
#pragma omp parallel for schedule(dynamic, 1) num_threads(num_threads)
    for (int64_t n = 0; n < num_items; ++n) {
      const Stage mine = stage();
      if (fill(items[n], stride, mine)) run(items[n], mine);
      stream_fence();
    }
  }

  // Calls merge(row, first part, parts) for every row that was cut.
  template <class Merge>
  void for_each_cut_row(const Merge& merge) {
    std::vector<WorkItem> first;
    for (const WorkItem& item : items)
      if (item.part >= 0 && item.begin == pairs.rowptr[item.row]) first.push_back(item);
    const int64_t rows = static_cast<int64_t>(first.size());
#pragma omp parallel for schedule(dynamic, 1) num_threads(num_threads) if (rows > 1)
    for (int64_t n = 0; n < rows; ++n)
      merge(first[n].row, first[n].part, (pairs.length(first[n].row) + LONGEST - 1) / LONGEST);
  }

  // Entries of one thread's staged arrays.
  int64_t room() const { return room_; }
  int status() const { return bad_.load(std::memory_order_relaxed) ? LH_BAD_INDEX : LH_OK; }

  const Pairs& pairs;
  const int64_t ahead;
  std::vector<WorkItem> items;
  int64_t num_parts = 0;
  int num_threads = 1;

 private:
  int64_t room_ = 0;
  std::vector<int64_t> offset_, position_;
  std::vector<float> coef_;
  std::atomic<bool> bad_{false};
};

template <int MAX, int N = 1, class F>
void with_count(int64_t n, const F& f) {
  if constexpr (N == MAX)
    f(Count<N>{});
  else if (n == N)
    f(Count<N>{});
  else
    with_count<MAX, N + 1>(n, f);
}

// The columns of a row in blocks of up to MAX vectors: calls block(vectors, lanes, c), its first two arguments
// known at compile time. `lanes` is 0 when all vectors are full: then the last one starts last_vector()
// columns after c, and may overlap what lies before it. Rows of fewer than eight columns are one or two
// blocks, overlapping too, of one vector with `lanes` = 1, 2 or 4.
template <int MAX, class Block>
void for_each_block(int64_t width, const Block& block) {
  const auto narrow = [&](auto lanes) {
    block(Count<1>{}, lanes, 0);
    if (width > lanes) block(Count<1>{}, lanes, width - lanes);
  };
  if (width >= 8)
    for (int64_t c = 0; c < width; c += 8 * MAX)
      with_count<MAX>(std::min<int64_t>(MAX, (width - c + 7) / 8),
                      [&](auto vectors) { block(vectors, Count<0>{}, c); });
  else if (width >= 4)
    narrow(Count<4>{});
  else if (width >= 2)
    narrow(Count<2>{});
  else if (width == 1)
    block(Count<1>{}, Count<1>{}, 0);
}

inline int64_t last_vector(int64_t width, int64_t c, int vectors) {
  return std::min<int64_t>(8 * (vectors - 1), width - c - 8);
}

// Leading lanes of a block's last vector whose columns other vectors hold as well.
inline int64_t overlapping_lanes(int64_t width, int64_t c, int vectors, int lanes) {
  if (lanes == 0) return 8 * (vectors - 1) - last_vector(width, c, vectors);
  return c > 0 ? 2 * lanes - width : 0;
}

template <int LANES, class T>
static inline f32x8 load_last(const T* row, int64_t last) {
  if constexpr (LANES == 0)
    return load8(row + last);
  else
    return load_part<LANES>(row);
}
template <int LANES, class T>
static inline void store_last(T* row, int64_t last, f32x8 v) {
  if constexpr (LANES == 0)
    store8(row + last, v);
  else
    store_part<LANES>(row, v);
}

template <int VECTORS, class T>
static inline void prefetch_vectors(const T* p) {
  for (int k = 0; k < VECTORS; k += 8 / static_cast<int>(sizeof(T))) __builtin_prefetch(p + 8 * k, 0, 3);
}

// Adds the parts of a cut row in their order, so that the sum does not depend on who computed them when.
// parts is [num_parts, width]; the sum is left in its first row.
inline void add_parts(float* parts, int64_t num_parts, int64_t width) {
  for (int64_t part = 1; part < num_parts; ++part)
    for (int64_t c = 0; c < width; ++c) parts[c] += parts[part * width + c];
}

// Runs a kernel's body; no exception may leave a C function.
template <class Body>
int guarded(const Body& body) {
  try {
    return body();
  } catch (const std::exception&) {
    return LH_NO_MEMORY;
  }
}

}  // namespace LONGHOP_VARIANT
