// out = dropout(act(x + bias)) + residual in one pass over memory, and its gradient.
//
// Dropout is a function of (seed, row identity, column, site): nothing of it is stored for none and gelu. relu
// stores one bit an element, positive and kept, which is all that its backward needs.
#include "philox.h"
#include "staging.h"

namespace LONGHOP_VARIANT {
namespace {

enum Act : int { NONE = 0, RELU = 1, GELU = 2 };

constexpr int64_t TILE = 8;     // rows that share calls of the generator
constexpr int64_t GROUPS = 32;  // groups of eight columns in a tile

struct Block {
  int64_t rows, width;
  const float* bias;  // [width] or null
  const int64_t* seed;
  const int64_t* row_ids;  // null: row numbers
  int64_t site;
  int32_t threshold;  // 0: nothing is dropped
  int64_t threads;

  int64_t groups() const { return (width + 7) / 8; }
  float scale() const { return 65536.0f / static_cast<float>(65536 - threshold); }  // of what is kept
};

// Identities of a tile's rows, as low halves of 64-bit lanes.
struct RowIds {
  u64x4 front, back;

  RowIds(const Block& b, int64_t row) {
    uint64_t ids[TILE];
    for (int64_t r = 0; r < TILE; ++r) {
      const int64_t at = std::min(row + r, b.rows - 1);
      ids[r] = static_cast<uint64_t>(b.row_ids ? b.row_ids[at] : at);
    }
    std::memcpy(&front, ids, sizeof front);
    std::memcpy(&back, ids + 4, sizeof back);
  }
};

// Which elements of a tile are kept, columns 8 first ..: kept[group][row][8].
inline void fill_kept(const Block& b, const PhiloxKeys& keys, int64_t row, int64_t first, int64_t groups,
                      uint16_t* kept) {
  const RowIds ids(b, row);
  const u64x4 site = u64x4{} + static_cast<uint64_t>(b.site);
  const uint16_t threshold = static_cast<uint16_t>(b.threshold);
  for (int64_t g = 0; g < groups; ++g) {
    const u64x4 group = u64x4{} + static_cast<uint64_t>(first + g);
    PhiloxWords w = {ids.front, ids.front >> 32, group, site}, v = {ids.back, ids.back >> 32, group, site};
    philox4x2(keys, w, v);
    philox_kept(w, threshold, kept + g * 64);
    philox_kept(v, threshold, kept + g * 64 + 32);
  }
}

template <int N>
static inline f32x8 polynomial8(const float (&coefficients)[N], f32x8 u) {
  f32x8 p = splat(coefficients[N - 1]);
  for (int k = N - 2; k >= 0; --k) p = p * u + splat(coefficients[k]);
  return p;
}

// 1/2 + x p(x^2) / q(x^2) for |x| <= limit, 0 or 1 beyond: both functions below less 1/2 are odd.
template <int P, int Q>
static inline f32x8 sigmoidal8(f32x8 x, const float (&p)[P], const float (&q)[Q], float limit) {
  const f32x8 u = x * x;
  const i32x8 sign = (i32x8)x & INT32_MIN;
  const f32x8 half = x * (polynomial8(p, u) / polynomial8(q, u));
  const f32x8 beyond = (f32x8)(sign | (i32x8)splat(0.5f));
  return splat(0.5f) + select8(less8(splat(limit * limit), u), beyond, half);
}

// Rational fits in x^2 (Chebyshev points, reweighted to a level error). The normal distribution function, and
// gelu's slope: that function plus x times its density. Errors: 2e-7 and 3e-7, the rounding of fp32 included.
static inline f32x8 normal_cdf8(f32x8 x) {
  constexpr float p[] = {0.398941934f,    0.0384259745f,    0.00467580277f,  0.000197559333f,
                         3.58836087e-06f, -2.28687806e-08f, 1.10783271e-10f};
  constexpr float q[] = {1.0f, 0.262981296f, 0.0305590443f, 0.00198353361f, 7.18744195e-05f};
  return sigmoidal8(x, p, q, 5.5f);
}
static inline f32x8 gelu_slope8(f32x8 x) {
  constexpr float p[] = {0.797883987f,    0.481357068f,    -0.00634694705f, 0.00921037979f,
                         3.56344462e-05f, 2.34296658e-05f, 1.28242633e-07f};
  constexpr float q[] = {1.0f,            0.936617255f,    0.229273781f,   0.0295952372f,
                         0.00244236132f,  0.000127818028f, 5.88040575e-06f};
  return sigmoidal8(x, p, q, 5.8f);
}

template <class T, class Lanes>
static inline void write8(T* out, f32x8 v, Lanes lanes, bool stream) {
  if constexpr (!std::is_same<Lanes, Count<8>>::value) return store_some(out, v, lanes);
  if constexpr (std::is_same<T, float>::value)
    if (stream) return stream8(out, v);
  store8(out, v);
}

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

// Calls body(row, first, kept) for each row in [begin, end) and each stretch of GROUPS groups from `first` on;
// lane l of group first + g is kept[g * TILE * 8 + l], where something is dropped.
template <bool RANDOM, class Body>
inline void walk_rows(const Block& b, int64_t begin, int64_t end, const Body& body) {
  alignas(32) uint16_t kept[GROUPS * TILE * 8];
  const bool random = RANDOM && b.threshold;
  const PhiloxKeys keys(random ? *b.seed : 0);
  for (int64_t row = begin; row < end; row += TILE)
    for (int64_t first = 0; first < b.groups(); first += GROUPS) {
      if (random) fill_kept(b, keys, row, first, std::min(GROUPS, b.groups() - first), kept);
      for (int64_t r = 0; r < std::min(TILE, end - row); ++r) body(row + r, first, kept + r * 8);
    }
}

// Calls step(g, c, lanes) for the vectors of a stretch: its g-th, whose first column is c in the stretch. `lanes` is
// the constant 8 but at a row's end. What step needs it holds by value, so that it stays in registers.
template <class Step>
inline void walk_stretch(const Block& b, int64_t first, const Step& step) {
  const int64_t columns = std::min(8 * GROUPS, b.width - 8 * first), full = columns / 8;
#pragma GCC unroll 2
  for (int64_t g = 0; g < full; ++g) step(g, 8 * g, Count<8>{});
  if (8 * full < columns) step(full, 8 * full, columns - 8 * full);
}

template <class T, class Lanes>
inline f32x8 load_lanes(const T* p, Lanes lanes) {
  if constexpr (std::is_same<Lanes, Count<8>>::value) return load8(p);
  return load_some(p, lanes);
}

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
    f32x8 v = load_lanes(x + c, lanes);
    if (bias) v += load_lanes(bias + c, lanes);
    const f32x8 keep = random ? kept_scale8(kept + g * TILE * 8, scale) : splat(1.0f);
    if constexpr (ACT == RELU) {
      const i32x8 positive = less8(zero8(), v) | nan8(v);  // a NaN must not vanish
      if (bits) bits[g] = mask_bits8(positive & -(i32x8)keep >> 31);
      v = (f32x8)(positive & (i32x8)v);
    }
    if constexpr (ACT == GELU) v *= normal_cdf8(v);
    v *= keep;
    if (residual) v += load_lanes(residual + c, lanes);
    write8(out + c, v, lanes, stream);
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
    f32x8 v = load_lanes(grad + c, lanes);
    if constexpr (ACT == RELU)
      v *= keep_scale8(bits[g], scale);
    else if (random)
      v *= kept_scale8(kept + g * TILE * 8, scale);
    if constexpr (ACT == GELU) {
      f32x8 z = load_lanes(x + c, lanes);
      if (bias) z += load_lanes(bias + c, lanes);
      v *= gelu_slope8(z);
    }
    if (sums) store8(sums + c, load8(sums + c) + v);
    if (out) write8(out + c, v, lanes, stream);
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
  const Block b{rows, width, bias, seed, row_ids, site, static_cast<int32_t>(threshold), num_threads};
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
  const Block b{rows, width, bias, seed, row_ids, site, static_cast<int32_t>(threshold), num_threads};
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
