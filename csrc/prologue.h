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
      walk_wide(norm.width, [=](int64_t, int64_t c, auto lanes) {
        const auto v = load_lanes(x + c, lanes);
        using V = std::decay_t<decltype(v)>;
        write_lanes(out + c, (V)(positive(v) & (Ints<V>)v), lanes, false);
      });
    else
      walk_wide(norm.width, [=](int64_t, int64_t c, auto lanes) {
        const auto v = load_lanes(x + c, lanes);
        write_lanes(out + c, v * normal_cdf(v), lanes, false);
      });
  }

  void activate_gradient(const float* x, const float* grad, float* out, bool stream) const {
    if (act == RELU)
      walk_wide(norm.width, [=](int64_t, int64_t c, auto lanes) {
        const auto v = load_lanes(grad + c, lanes);
        using V = std::decay_t<decltype(v)>;
        write_lanes(out + c, (V)(positive(load_lanes(x + c, lanes)) & (Ints<V>)v), lanes, stream);
      });
    else
      walk_wide(norm.width, [=](int64_t, int64_t c, auto lanes) {
        write_lanes(out + c, load_lanes(grad + c, lanes) * gelu_slope(load_lanes(x + c, lanes)), lanes, stream);
      });
  }
};

}  // namespace LONGHOP_VARIANT
