// Products of a block of rows with a small matrix: what a Linear over very many rows is made of.
//
// A block of rows and the matrix, packed into panels of PANEL columns, stay in the first two caches; a tile of
// ROWS x PANEL sums stays in registers while it runs over the depth.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lanes.h"

namespace LONGHOP_VARIANT {

constexpr int PANEL = 16;  // columns of a tile: two vectors
#if defined(__SSE2__) && !defined(__AVX2__)
constexpr int ROWS = 2;  // of a tile; 16 registers of four lanes hold no more
#else
constexpr int ROWS = 6;
#endif
constexpr int64_t BLOCK = 48;  // rows that are worked on while they are in the first cache

inline int64_t in_panels(int64_t columns) { return (columns + PANEL - 1) / PANEL * PANEL; }

// Numbers on a boundary of 64 bytes, so that no vector of a panel lies across two lines of the cache.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(int64_t size) : memory_(size + 15) {}
  float* data() {
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory_.data());
    return reinterpret_cast<float*>((at + 63) / 64 * 64);
  }

 private:
  std::vector<float> memory_;
};

// A matrix [depth, columns] whose element (d, c) is at[d * deep + c * across].
struct Matrix {
  const float* at;
  int64_t depth, columns, deep, across;
};

// packed[panel][d][PANEL], with zeros behind the last column; panels hold in_panels(columns) * depth numbers.
inline void pack_panels(const Matrix& m, float* packed) {
  for (int64_t first = 0; first < m.columns; first += PANEL)
    for (int64_t d = 0; d < m.depth; ++d)
      for (int64_t c = first; c < first + PANEL; ++c)
        *packed++ = c < m.columns ? m.at[d * m.deep + c * m.across] : 0.0f;
}

// Fetches what the next block will read, a few lines at every call: too much at once would wait for memory.
class Ahead {
 public:
  Ahead() = default;
  Ahead(const float* from, int64_t rows, int64_t stride, int64_t width, int64_t calls)
      : from_(from), stride_(stride), lines_((width + 15) / 16), left_(std::max<int64_t>(rows, 0) * lines_),
        step_((left_ + calls) / std::max<int64_t>(calls, 1)) {}
  void operator()() {
    for (int64_t n = std::min(step_, left_); n > 0; --n, --left_) {
      __builtin_prefetch(from_ + 16 * line_, 0, 3);
      if (++line_ == lines_) line_ = 0, from_ += stride_;
    }
  }

 private:
  const float* from_ = nullptr;
  int64_t stride_ = 0, lines_ = 0, left_ = 0, step_ = 0, line_ = 0;
};

// sums[i][0..15] of R rows: += sum over k of a[i * a_row + k * a_deep] * b[k * PANEL + 0..15].
template <int R>
struct Tile {
  f32x8 sums[R][2];

  void add(const float* a, int64_t a_row, int64_t a_deep, const float* b, int64_t depth) {
    for (int64_t k = 0; k < depth; ++k, a += a_deep, b += PANEL) {
      const f32x8 left = load8(b), right = load8(b + 8);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) {
        const f32x8 factor = splat(a[i * a_row]);
        sums[i][0] += factor * left;
        sums[i][1] += factor * right;
      }
    }
  }
};

// Calls tile(Count<R>, first) for tiles of R rows that cover `rows` rows.
template <class F>
inline void for_each_tile(int64_t rows, const F& tile) {
  int64_t row = 0;
  for (; row + ROWS <= rows; row += ROWS) tile(std::integral_constant<int, ROWS>{}, row);
  if constexpr (ROWS > 4)
    if (row + 4 <= rows) tile(std::integral_constant<int, 4>{}, row), row += 4;
  for (; row < rows; ++row) tile(std::integral_constant<int, 1>{}, row);
}

// Where a product's rows go, and what is added to each.
struct Product {
  const float* panels;
  int64_t depth, columns;
  const float* bias;  // [in_panels(columns)] or null
  bool stream;        // `columns` is a multiple of PANEL then
};

template <int R>
inline void write_tile(const Tile<R>& tile, float* out, int64_t stride, int64_t columns, bool stream) {
  for (int i = 0; i < R; ++i, out += stride)
    for (int half = 0; half < 2; ++half) {
      const int64_t left = columns - 8 * half;
      if (stream)
        stream8(out + 8 * half, tile.sums[i][half]);
      else if (left >= 8)
        store8(out + 8 * half, tile.sums[i][half]);
      else if (left > 0)
        store_some(out + 8 * half, tile.sums[i][half], left);
    }
}

// out [rows, columns] = x [rows, depth] times the panels.
inline void multiply_block(const Product& p, const float* x, int64_t x_stride, int64_t rows, float* out,
                           int64_t out_stride, Ahead one, Ahead other) {
  for (int64_t c = 0; c < p.columns; c += PANEL) {
    const float *panel = p.panels + c * p.depth, *bias = p.bias ? p.bias + c : nullptr;
    for_each_tile(rows, [&](auto count, int64_t row) {
      constexpr int R = decltype(count)::value;
      one(), other();
      Tile<R> tile;
      for (int i = 0; i < R; ++i)
        for (int half = 0; half < 2; ++half) tile.sums[i][half] = bias ? load8(bias + 8 * half) : zero8();
      tile.add(x + row * x_stride, x_stride, 1, panel, p.depth);
      write_tile(tile, out + row * out_stride + c, out_stride, p.columns - c, p.stream);
    });
  }
}

// One panel of a block of rows, with zeros behind column `columns`.
inline void pack_rows(const float* x, int64_t stride, int64_t columns, int64_t rows, float* panel) {
  for (int64_t r = 0; r < rows; ++r, x += stride, panel += PANEL)
    if (columns >= PANEL) {
      store8(panel, load8(x));
      store8(panel + 8, load8(x + 8));
    } else {
      std::copy(x, x + columns, panel);
      std::fill(panel + columns, panel + PANEL, 0.0f);
    }
}

// sums [outputs, in_panels(width)] += grad^T x over a block of rows; grad [rows, outputs], x [rows, width].
inline void add_outer_block(const float* grad, int64_t grad_stride, int64_t outputs, const float* x, int64_t x_stride,
                            int64_t width, int64_t rows, float* sums, Ahead grad_ahead, Ahead x_ahead) {
  alignas(64) float panel[BLOCK * PANEL];
  const int64_t stride = in_panels(width);
  for (int64_t c = 0; c < width; c += PANEL) {
    pack_rows(x + c, x_stride, width - c, rows, panel);
    for_each_tile(outputs, [&](auto count, int64_t output) {
      constexpr int R = decltype(count)::value;
      grad_ahead(), x_ahead();
      float* at = sums + output * stride + c;
      Tile<R> tile;
      for (int i = 0; i < R; ++i)
        for (int half = 0; half < 2; ++half) tile.sums[i][half] = load8(at + i * stride + 8 * half);
      tile.add(grad + output, 1, grad_stride, panel, rows);
      for (int i = 0; i < R; ++i)
        for (int half = 0; half < 2; ++half) store8(at + i * stride + 8 * half, tile.sums[i][half]);
    });
  }
}

}  // namespace LONGHOP_VARIANT
