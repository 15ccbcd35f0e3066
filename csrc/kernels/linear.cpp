// dropout(f(x) W^T + bias) + residual over very many rows, f an activation or a layer norm, and its gradients.
//
// Each input is read once, by blocks of rows; f(x), the product before dropout and their gradients live in the first
// caches only and are made again for backward.
#include "gemm.h"
#include "prologue.h"

namespace LONGHOP_VARIANT {
namespace {

struct Rows {
  const float* at;
  int64_t stride, width;

  const float* row(int64_t r) const { return at + r * stride; }
  // The block after the one that starts at `row`, fetched in `calls` steps.
  Ahead next(int64_t row, int64_t num_rows, int64_t calls) const {
    if (at == nullptr) return {};
    row += BLOCK;
    return {this->row(std::min(row, num_rows)), std::min(BLOCK, num_rows - row), stride, width, calls};
  }
};

// What follows the product.
struct Epilogue {
  Mask mask;
  Rows residual;  // at: or null

  bool any() const { return mask.threshold || residual.at; }
};

// Memory of a thread for blocks of rows: f(x), the product, its gradient.
class Scratch {
 public:
  Scratch(int64_t threads, int64_t width) : each_(in_panels(width) * BLOCK), memory_(threads * each_) {}
  float* mine() { return memory_.data() + omp_get_thread_num() * each_; }

 private:
  int64_t each_;
  AlignedBuffer memory_;
};

inline int64_t tiles(int64_t rows, int64_t columns) { return rows / ROWS * (in_panels(columns) / PANEL); }

inline bool past_cache(const float* out, int64_t rows, int64_t columns, int64_t multiple) {
  return columns % multiple == 0 && worth_streaming(out, rows * columns * static_cast<int64_t>(sizeof(float)));
}

// out = dropped x + residual, rows [row, row + count) of what the mask and the residual number; x and out start there.
inline void finish(const Mask& mask, const Rows& residual, int64_t row, int64_t count, const Rows& x, float* out,
                   bool stream) {
  const bool random = mask.threshold != 0;
  const float scale = mask.scale();
  walk_rows<true>(mask, row, row + count, [&](int64_t r, int64_t first, const uint16_t* kept) {
    const float* from = x.row(r - row) + 8 * first;
    const float* added = residual.at ? residual.row(r) + 8 * first : nullptr;
    float* to = out + (r - row) * mask.width + 8 * first;
    walk_stretch(mask, first, [=](int64_t g, int64_t c, auto lanes) {
      auto v = load_lanes(from + c, lanes);
      if (random) v *= kept_scale<decltype(v)>(kept + g * Mask::TILE * 8, Mask::TILE * 8, scale);
      if (added) v += load_lanes(added + c, lanes);
      write_lanes(to + c, v, lanes, stream);
    });
  });
}

// f of a block of rows in `to`, or the rows themselves.
inline Rows prepare(const Prologue& f, const Rows& x, int64_t row, int64_t count, float* to, Moments* m) {
  if (!f.any()) return {x.row(row), x.stride, x.width};
  f.apply(x.row(row), x.stride, count, to, m);
  return {to, x.width, x.width};
}

int forward(const Rows& x, const Prologue& f, int64_t num_rows, const Matrix& m, const float* bias,
            const Epilogue& after, float* out, int64_t threads) {
  AlignedBuffer panels(in_panels(m.columns) * m.depth), padded(bias ? in_panels(m.columns) : 0);
  pack_panels(m, panels.data());
  if (bias) std::copy(bias, bias + m.columns, padded.data());
  const bool finished = !after.any();
  const bool stream = past_cache(out, num_rows, m.columns, finished ? PANEL : 8);
  const Product product{panels.data(), m.depth, m.columns, bias ? padded.data() : nullptr, finished && stream};
  Scratch inputs(threads, f.any() ? x.width : 0), products(threads, finished ? 0 : m.columns);
  const int64_t calls = tiles(BLOCK, m.columns);
#pragma omp parallel num_threads(static_cast<int>(threads)) if (num_rows > BLOCK)
  {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < num_rows; row += BLOCK) {
      const int64_t count = std::min(BLOCK, num_rows - row);
      Moments moments[BLOCK];
      const Rows input = prepare(f, x, row, count, inputs.mine(), moments);
      float* to = out + row * m.columns;
      float* result = finished ? to : products.mine();
      multiply_block(product, input.at, input.stride, count, result, m.columns, x.next(row, num_rows, calls),
                     after.residual.next(row, num_rows, calls));
      if (!finished) finish(after.mask, after.residual, row, count, {result, m.columns, m.columns}, to, stream);
    }
    stream_fence();
  }
  return LH_OK;
}

// Rows whose sums are kept apart: the sizes alone decide, so sums are the same for any number of threads.
inline int64_t rows_per_item(int64_t num_rows, int64_t numbers) {
  constexpr int64_t memory = int64_t{1} << 22;  // numbers in all items together
  const int64_t items = std::min<int64_t>(256, std::max<int64_t>(64, memory / numbers));
  return std::max<int64_t>((num_rows + items - 1) / items + BLOCK - 1, 8 * BLOCK) / BLOCK * BLOCK;
}

// Where gradients go; each may be null.
struct Gradients {
  float* x;       // [rows, width]
  float* weight;  // [outputs, width]
  float* bias;    // [outputs]
  float* gamma;   // [width]
  float* beta;    // [width]
};

// Where an item's sums lie among `room` numbers.
struct Sums {
  int64_t weight, bias, gamma, beta, room;

  Sums(const Gradients& g, int64_t outputs, int64_t width) : weight(0) {
    bias = g.weight ? outputs * in_panels(width) : 0;
    gamma = bias + (g.bias ? in_panels(outputs) : 0);
    beta = gamma + (g.gamma ? in_panels(width) : 0);
    room = beta + (g.beta ? in_panels(width) : 0);
  }
};

inline void add_rows(const Rows& grad, int64_t count, float* sums) {
  int64_t c = 0;
  for (; c + 8 <= grad.width; c += 8) {
    f32x8 total = load8(sums + c);
    for (int64_t r = 0; r < count; ++r) total += load8(grad.row(r) + c);
    store8(sums + c, total);
  }
  for (; c < grad.width; ++c)
    for (int64_t r = 0; r < count; ++r) sums[c] += grad.row(r)[c];
}

// Sums of items [items, room] in their order: `width` of every `stride` numbers, from `first` on, into `out`.
inline void add_items(float* sums, int64_t items, int64_t room, int64_t count, int64_t stride, int64_t width,
                      float* out, int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(threads)) if (count > 1)
  for (int64_t n = 0; n < count; ++n) {
    float* total = sums + n * stride;
    for (int64_t item = 1; item < items; ++item)
      for (int64_t c = 0; c < width; ++c) total[c] += total[item * room + c];
    std::copy(total, total + width, out + n * width);
  }
}

// One call's operands, and its way through a block of rows.
struct Backward {
  Rows grad, x;
  Prologue f;
  Mask mask;
  int64_t num_rows;
  Product product;  // by the weight; its rows are streamed where they are the result
  bool stream;
  Gradients out;
  Sums sums;

  bool wants_input() const { return out.x || out.gamma || out.beta; }

  void block(int64_t row, int64_t count, float* sum, float* input, float* masked, float* back) const {
    Rows g{grad.row(row), grad.stride, grad.width};
    if (mask.threshold) {
      finish(mask, {}, row, count, g, masked, false);
      g = {masked, grad.width, grad.width};
    }
    Moments moments[BLOCK];
    const bool prepared = out.weight || f.norm.gamma;
    const Rows in = prepared ? prepare(f, x, row, count, input, moments) : Rows{};
    if (wants_input()) {
      float* to = out.x ? out.x + row * x.width : nullptr;
      const bool last = !out.weight;  // nothing after it fetches
      multiply_block(product, g.at, g.stride, count, f.any() ? back : to, x.width,
                     last ? grad.next(row, num_rows, tiles(BLOCK, x.width)) : Ahead(), Ahead());
      if (f.any())
        f.gradient(x.row(row), x.stride, count, moments, back,
                   {to, stream, out.gamma ? sum + sums.gamma : nullptr, out.beta ? sum + sums.beta : nullptr});
    }
    if (out.bias) add_rows(g, count, sum + sums.bias);
    if (!out.weight) return;
    const int64_t calls = tiles(grad.width, x.width);
    add_outer_block(g.at, g.stride, grad.width, in.at, in.stride, x.width, count, sum,
                    grad.next(row, num_rows, calls), x.next(row, num_rows, calls));
  }
};

int backward(const Rows& grad, const Rows& x, const Prologue& f, const Mask& mask, int64_t num_rows,
             const float* weight, const Gradients& out, int64_t threads) {
  const int64_t outputs = grad.width, width = x.width;
  const Sums place(out, outputs, width);
  Backward call{grad, x, f, mask, num_rows, {}, false, out, place};
  AlignedBuffer panels(call.wants_input() ? in_panels(width) * outputs : 0);
  if (call.wants_input()) pack_panels({weight, outputs, width, width, 1}, panels.data());
  call.stream = out.x && past_cache(out.x, num_rows, width, f.any() ? 8 : PANEL);
  call.product = {panels.data(), outputs, width, nullptr, call.stream && !f.any()};
  const int64_t step = rows_per_item(num_rows, std::max<int64_t>(1, place.room));
  const int64_t items = (num_rows + step - 1) / step;
  AlignedBuffer sums(std::max<int64_t>(1, items) * place.room);
  Scratch inputs(threads, f.any() ? width : 0), backs(threads, f.any() ? width : 0);
  Scratch masked(threads, mask.threshold ? outputs : 0);
#pragma omp parallel num_threads(static_cast<int>(threads)) if (items > 1)
  {
#pragma omp for schedule(dynamic, 1)
    for (int64_t item = 0; item < items; ++item)
      for (int64_t row = item * step; row < std::min((item + 1) * step, num_rows); row += BLOCK)
        call.block(row, std::min(BLOCK, num_rows - row), sums.data() + item * place.room, inputs.mine(),
                   masked.mine(), backs.mine());
    stream_fence();
  }
  const auto add = [&](int64_t from, int64_t count, int64_t stride, int64_t columns, float* to) {
    if (to) add_items(sums.data() + from, items, place.room, count, stride, columns, to, threads);
  };
  add(place.weight, outputs, in_panels(width), width, out.weight);
  add(place.bias, 1, outputs, outputs, out.bias);
  add(place.gamma, 1, width, width, out.gamma);
  add(place.beta, 1, width, width, out.beta);
  return LH_OK;
}

}  // namespace
}  // namespace LONGHOP_VARIANT

using namespace LONGHOP_VARIANT;

// out [rows, outputs] = dropout(f(x) weight^T + bias) + residual; x [rows, width], weight [outputs, width]. f: layer
// norm where gamma and beta [width] are given, else act (0 none, 1 relu, 2 gelu). bias, residual and row_ids may be
// null, seed where threshold is 0.
LH_KERNEL(linear)
(const float* x, int64_t rows, int64_t width, int64_t x_stride, const float* gamma, const float* beta, float eps,
 int64_t act, const float* weight, int64_t outputs, const float* bias, const float* residual,
 int64_t residual_stride, int64_t threshold, const int64_t* seed, const int64_t* row_ids, int64_t site, float* out,
 int64_t num_threads) {
  return guarded([&] {
    const Mask mask{rows, outputs, seed, row_ids, site, static_cast<int32_t>(threshold)};
    return forward({x, x_stride, width}, {act, {gamma, beta, eps, width}}, rows, {weight, width, outputs, 1, width}, bias,
                   {mask, {residual, residual_stride, outputs}}, out, num_threads);
  });
}

// Gradients of x, weight, bias, gamma and beta; each may be null. The residual's is the output's. Without dx, dgamma
// and dbeta no weight is read; without dweight no x but for f's gradient.
LH_KERNEL(linear_grad)
(const float* grad, int64_t rows, int64_t outputs, int64_t grad_stride, const float* x, int64_t width,
 int64_t x_stride, const float* gamma, const float* beta, float eps, int64_t act, const float* weight,
 int64_t threshold, const int64_t* seed, const int64_t* row_ids, int64_t site, float* dx, float* dweight,
 float* dbias, float* dgamma, float* dbeta, int64_t num_threads) {
  return guarded([&] {
    const Mask mask{rows, outputs, seed, row_ids, site, static_cast<int32_t>(threshold)};
    return backward({grad, grad_stride, outputs}, {x, x_stride, width}, {act, {gamma, beta, eps, width}}, mask, rows,
                    weight, {dx, dweight, dbias, dgamma, dbeta}, num_threads);
  });
}
