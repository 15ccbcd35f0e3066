// What a block of rows goes through on its way into a product, and the gradient of that.
#pragma once

#include "layer_norm.h"

namespace LONGHOP_VARIANT {

// Identity, act(x), or layer norm. Rows of x lie `stride` apart, those of results and gradients `width`.
struct Prologue {
  int64_t act;     // NONE, RELU, GELU; NONE with a norm
  LayerNorm norm;  // gamma null: none

  bool any() const { return act != NONE || norm.gamma; }

  // `m` [rows] is filled for gradient(), with a norm.
  void apply(const float* x, int64_t stride, int64_t rows, float* out, Moments* m) const {
    if (norm.gamma) return normalize(norm, x, stride, rows, out, m);
    for (int64_t r = 0; r < rows; ++r, x += stride, out += norm.width) activate(x, out);
  }

  // Gradient of x from `grad` of what became of it.
  void gradient(const float* x, int64_t stride, int64_t rows, const Moments* m, const float* grad,
                NormGradients to) const {
    if (norm.gamma)
      return by_four(rows, [&](auto count, int64_t row) {
        NormGradients at = to;
        at.x = to.x ? to.x + row * norm.width : nullptr;
        normalize_gradient<decltype(count)::value>(norm, x + row * stride, stride, m + row, grad + row * norm.width, at);
      });
    for (int64_t r = 0; r < rows; ++r, x += stride, grad += norm.width, to.x += norm.width)
      activate_gradient(x, grad, to.x, to.stream);
  }

 private:
  void activate(const float* x, float* out) const {
    if (act == RELU)
      walk_columns(norm.width, [=](int64_t, int64_t c, auto lanes) {
        const f32x8 v = load_lanes(x + c, lanes);
        write8(out + c, (f32x8)(positive8(v) & (i32x8)v), lanes, false);
      });
    else
      walk_columns(norm.width, [=](int64_t, int64_t c, auto lanes) {
        const f32x8 v = load_lanes(x + c, lanes);
        write8(out + c, v * normal_cdf8(v), lanes, false);
      });
  }

  void activate_gradient(const float* x, const float* grad, float* out, bool stream) const {
    if (act == RELU)
      walk_columns(norm.width, [=](int64_t, int64_t c, auto lanes) {
        const i32x8 slope = positive8(load_lanes(x + c, lanes));
        write8(out + c, (f32x8)(slope & (i32x8)load_lanes(grad + c, lanes)), lanes, stream);
      });
    else
      walk_columns(norm.width, [=](int64_t, int64_t c, auto lanes) {
        write8(out + c, load_lanes(grad + c, lanes) * gelu_slope8(load_lanes(x + c, lanes)), lanes, stream);
      });
  }
};

}  // namespace LONGHOP_VARIANT
