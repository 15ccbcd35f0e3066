// out = dropout(act(x + bias)) + residual in one pass over memory, and its gradient.
//
// Dropout is a function of (seed, row identity, column, site): nothing of it is stored for none and gelu. relu
// stores one bit an element, positive and kept, which is all that its backward needs.
#include "elementwise.h"

namespace LONGHOP_VARIANT {
namespace {

struct Block : Mask {
  const float* bias;  // [width] or null
  int64_t threads;
};

template <class T>
struct Forward {
  const T* x;
  int64_t x_stride;
  const T* residual;  // or null
  int64_t residual_stride;
  T* out;
  uint8_t* bits;  // [rows, groups] for relu; null where no gradient is wanted
  bool stream;
};

template <int ACT, class T>
inline void forward_row(const Block& b, const Forward<T>& f, int64_t row, int64_t first, const uint16_t* kept) {
  const T* x = f.x + row * f.x_stride + 8 * first;
  const T* residual = f.residual ? f.residual + row * f.residual_stride + 8 * first : nullptr;
  const float* bias = b.bias ? b.bias + 8 * first : nullptr;
  T* out = f.out + row * b.width + 8 * first;
  uint8_t* bits = f.bits ? f.bits + row * b.groups() + first : nullptr;
  const bool random = b.threshold != 0, stream = f.stream;
  const float scale = b.scale();
  walk_stretch(b, first, [=](int64_t g, int64_t c, auto lanes) {
    auto v = load_lanes(x + c, lanes);
    using V = decltype(v);
    if (bias) v += load_lanes(bias + c, lanes);
    const V keep = random ? kept_scale<V>(kept + g * Mask::TILE * 8, Mask::TILE * 8, scale) : V{} + 1.0f;
    if constexpr (ACT == RELU) {
      const Ints<V> above = positive(v);
      if (bits) write_mask_bits(bits + g, above & -(Ints<V>)keep >> 31);
      v = (V)(above & (Ints<V>)v);
    }
    if constexpr (ACT == GELU) v *= normal_cdf(v);
    v *= keep;
    if (residual) v += load_lanes(residual + c, lanes);
    write_lanes(out + c, v, lanes, stream);
  });
}

// Rows a work item has: the number of rows alone decides, so sums over items are the same for any thread count.
inline int64_t rows_per_item(int64_t rows) { return std::max<int64_t>(64, (rows + 1023) / 1024); }

template <int ACT, class T>
int forward_all(const Block& b, Forward<T> f) {
  const int64_t step = rows_per_item(b.rows);
  f.stream = b.width % 8 == 0 && worth_streaming(f.out, b.rows * b.width * sizeof(T));
#pragma omp parallel for schedule(dynamic, 1) num_threads(static_cast<int>(b.threads)) if (b.rows > step)
  for (int64_t begin = 0; begin < b.rows; begin += step) {
    const auto body = [&](int64_t row, int64_t first, const uint16_t* kept) {
      forward_row<ACT>(b, f, row, first, kept);
    };
    walk_rows<true>(b, begin, std::min(begin + step, b.rows), body);
    stream_fence();
  }
  return LH_OK;
}

template <class T>
struct Backward {
  const T* grad;
  int64_t grad_stride;
  const T* x;  // for gelu
  int64_t x_stride;
  const uint8_t* bits;  // for relu
  T* out;               // or null
  bool stream;
};

// Also adds the gradient to `sums` [8 * groups], unless that is null.
template <int ACT, class T>
inline void backward_row(const Block& b, const Backward<T>& f, int64_t row, int64_t first, const uint16_t* kept,
                         float* sums) {
  const T* grad = f.grad + row * f.grad_stride + 8 * first;
  const T* x = ACT == GELU ? f.x + row * f.x_stride + 8 * first : nullptr;
  const float* bias = b.bias ? b.bias + 8 * first : nullptr;
  const uint8_t* bits = ACT == RELU ? f.bits + row * b.groups() + first : nullptr;
  T* out = f.out ? f.out + row * b.width + 8 * first : nullptr;
  sums = sums ? sums + 8 * first : nullptr;
  const bool random = b.threshold != 0, stream = f.stream;
  const float scale = b.scale();
  walk_stretch(b, first, [=](int64_t g, int64_t c, auto lanes) {
    auto v = load_lanes(grad + c, lanes);
    using V = decltype(v);
    if constexpr (ACT == RELU)
      v *= keep_scale<V>(bits + g, scale);
    else if (random)
      v *= kept_scale<V>(kept + g * Mask::TILE * 8, Mask::TILE * 8, scale);
    if constexpr (ACT == GELU) {
      V z = load_lanes(x + c, lanes);
      if (bias) z += load_lanes(bias + c, lanes);
      v *= gelu_slope(z);
    }
    if (sums) add_lanes(sums + c, v);
    if (out) write_lanes(out + c, v, lanes, stream);
  });
}

// Sums of items, in their order, into grad [width].
inline void add_items(const std::vector<float>& sums, int64_t items, int64_t width, int64_t room, float* grad) {
  std::fill(grad, grad + width, 0.0f);
  for (int64_t item = 0; item < items; ++item)
    for (int64_t c = 0; c < width; ++c) grad[c] += sums[item * room + c];
}

template <int ACT, class T>
int backward_all(const Block& b, Backward<T> f, float* bias_grad) {
  const int64_t step = rows_per_item(b.rows), items = (b.rows + step - 1) / step, room = 8 * b.groups();
  std::vector<float> sums(bias_grad ? items * room : 0);
  f.stream = f.out && b.width % 8 == 0 && worth_streaming(f.out, b.rows * b.width * sizeof(T));
#pragma omp parallel for schedule(dynamic, 1) num_threads(static_cast<int>(b.threads)) if (items > 1)
  for (int64_t item = 0; item < items; ++item) {
    float* mine = bias_grad ? sums.data() + item * room : nullptr;
    const auto body = [&](int64_t row, int64_t first, const uint16_t* kept) {
      backward_row<ACT>(b, f, row, first, kept, mine);
    };
    walk_rows<ACT != RELU>(b, item * step, std::min((item + 1) * step, b.rows), body);
    stream_fence();
  }
  if (bias_grad) add_items(sums, items, b.width, room, bias_grad);
  return LH_OK;
}

template <class Run>
int with_act(int64_t act, const Run& run) {
  if (act == NONE) return run(Count<NONE>{});
  if (act == RELU) return run(Count<RELU>{});
  return run(Count<GELU>{});
}

}  // namespace
}  // namespace LONGHOP_VARIANT

using namespace LONGHOP_VARIANT;

// act: 0 none, 1 relu, 2 gelu. bias, row_ids and residual may be null, seed where threshold is 0; bits
// [rows, (width + 7) / 8] is written for relu only.
LH_KERNEL(fused_block)
(const void* x, int64_t is_bf16, int64_t rows, int64_t width, int64_t x_stride, const float* bias,
 const void* residual, int64_t residual_stride, int64_t act, int64_t threshold, const int64_t* seed,
 const int64_t* row_ids, int64_t site, void* out, uint8_t* bits, int64_t num_threads) {
  const Block b{{rows, width, seed, row_ids, site, static_cast<int32_t>(threshold)}, bias, num_threads};
  return with_act(act, [&](auto kind) {
    if (is_bf16)
      return forward_all<kind, bf16>(
          b, {(const bf16*)x, x_stride, (const bf16*)residual, residual_stride, (bf16*)out, bits, false});
    return forward_all<kind, float>(
        b, {(const float*)x, x_stride, (const float*)residual, residual_stride, (float*)out, bits, false});
  });
}

// out = gradient of x, bias_grad [width] = its sum over rows; either may be null. x is read for gelu, bits for
// relu; relu needs no seed.
LH_KERNEL(fused_block_grad)
(const void* grad, int64_t is_bf16, int64_t rows, int64_t width, int64_t grad_stride, const void* x,
 int64_t x_stride, const float* bias, const uint8_t* bits, int64_t act, int64_t threshold, const int64_t* seed,
 const int64_t* row_ids, int64_t site, void* out, float* bias_grad, int64_t num_threads) {
  const Block b{{rows, width, seed, row_ids, site, static_cast<int32_t>(threshold)}, bias, num_threads};
  return guarded([&] {
    return with_act(act, [&](auto kind) {
      if (is_bf16)
        return backward_all<kind, bf16>(
            b, {(const bf16*)grad, grad_stride, (const bf16*)x, x_stride, bits, (bf16*)out, false}, bias_grad);
      return backward_all<kind, float>(
          b, {(const float*)grad, grad_stride, (const float*)x, x_stride, bits, (float*)out, false}, bias_grad);
    });
  });
}
