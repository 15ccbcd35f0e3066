// Layer norm of rows and its gradient, R rows at a time: one row's sums alone would wait for each other.
#pragma once

#include <cmath>

#include "elementwise.h"

namespace LONGHOP_VARIANT {

// (x - mean) rstd gamma + beta; rows of x lie `stride` apart, those of results and gradients `width`.
struct LayerNorm {
  const float *gamma, *beta;  // [width]
  float eps;
  int64_t width;
};

struct Moments {
  float mean, rstd;
};

// Calls step(Count<R>, row) for all rows.
template <class Step>
inline void by_four(int64_t rows, const Step& step) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) step(Count<4>{}, row);
  for (; row < rows; ++row) step(Count<1>{}, row);
}

// The variance is the biased one.
template <int R>
inline void find_moments(const LayerNorm& n, const float* x, int64_t stride, Moments* m) {
  const float width = static_cast<float>(n.width);
  f32x8 sums[R] = {};
  walk_columns(n.width, [&](int64_t, int64_t c, auto lanes) {
    for (int r = 0; r < R; ++r) sums[r] += load_lanes(x + r * stride + c, lanes);
  });
  for (int r = 0; r < R; ++r) m[r].mean = sum8(sums[r]) / width, sums[r] = zero8();
  walk_columns(n.width, [&](int64_t, int64_t c, auto lanes) {
    for (int r = 0; r < R; ++r) {
      const f32x8 d = only_lanes(load_lanes(x + r * stride + c, lanes) - splat(m[r].mean), lanes);
      sums[r] += d * d;
    }
  });
  for (int r = 0; r < R; ++r) m[r].rstd = 1.0f / std::sqrt(sum8(sums[r]) / width + n.eps);
}

inline void normalize(const LayerNorm& n, const float* x, int64_t stride, int64_t rows, float* out, Moments* m) {
  by_four(rows, [&](auto count, int64_t row) {
    constexpr int R = decltype(count)::value;
    const float* from = x + row * stride;
    float* to = out + row * n.width;
    find_moments<R>(n, from, stride, m + row);
    walk_columns(n.width, [&](int64_t, int64_t c, auto lanes) {
      const f32x8 scale = load_lanes(n.gamma + c, lanes), shift = load_lanes(n.beta + c, lanes);
      for (int r = 0; r < R; ++r) {
        const f32x8 hat = (load_lanes(from + r * stride + c, lanes) - splat(m[row + r].mean)) * splat(m[row + r].rstd);
        write_lanes(to + r * n.width + c, hat * scale + shift, lanes, false);
      }
    });
  });
}

// Where the gradient of layer norm goes; each may be null.
struct NormGradients {
  float* x;  // [rows, width]
  bool stream;
  float *gamma, *beta;  // sums [8 * ((width + 7) / 8)], added to
};

// With hat = (x - mean) rstd and a = grad gamma: dx = rstd (a - mean(a) - hat mean(a hat)).
template <int R>
inline void normalize_gradient(const LayerNorm& n, const float* x, int64_t stride, const Moments* m, const float* grad,
                               const NormGradients& out) {
  const auto hat = [&](int r, int64_t c, auto lanes) {
    return (load_lanes(x + r * stride + c, lanes) - splat(m[r].mean)) * splat(m[r].rstd);
  };
  f32x8 sums[R] = {}, along[R] = {};
  walk_columns(n.width, [&](int64_t, int64_t c, auto lanes) {
    const f32x8 scale = load_lanes(n.gamma + c, lanes);
    f32x8 gamma = zero8(), beta = zero8();
    for (int r = 0; r < R; ++r) {
      const f32x8 g = load_lanes(grad + r * n.width + c, lanes), h = hat(r, c, lanes), a = g * scale;
      sums[r] += a;
      along[r] += a * h;
      gamma += g * h;
      beta += g;
    }
    if (out.gamma) store8(out.gamma + c, load8(out.gamma + c) + gamma);
    if (out.beta) store8(out.beta + c, load8(out.beta + c) + beta);
  });
  if (!out.x) return;
  const float share = 1.0f / static_cast<float>(n.width);
  float mean[R], slope[R];
  for (int r = 0; r < R; ++r) mean[r] = sum8(sums[r]) * share, slope[r] = sum8(along[r]) * share;
  walk_columns(n.width, [&](int64_t, int64_t c, auto lanes) {
    const f32x8 scale = load_lanes(n.gamma + c, lanes);
    for (int r = 0; r < R; ++r) {
      const f32x8 a = load_lanes(grad + r * n.width + c, lanes) * scale;
      const f32x8 v = splat(m[r].rstd) * (a - splat(mean[r]) - hat(r, c, lanes) * splat(slope[r]));
      write_lanes(out.x + r * n.width + c, v, lanes, out.stream);
    }
  });
}

}  // namespace LONGHOP_VARIANT
