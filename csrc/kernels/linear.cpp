// x W^T + bias over very many rows, and its gradients: each input is read once, by blocks of rows.
#include "gemm.h"
#include "staging.h"

namespace LONGHOP_VARIANT {
namespace {

struct Rows {
  const float* at;
  int64_t stride, width;

  const float* row(int64_t r) const { return at + r * stride; }
  // The block after the one that starts at `row`, fetched in `calls` steps.
  Ahead next(int64_t row, int64_t num_rows, int64_t calls) const {
    row += BLOCK;
    return {this->row(std::min(row, num_rows)), std::min(BLOCK, num_rows - row), stride, width, calls};
  }
};

inline int64_t tiles(int64_t rows, int64_t columns) { return rows / ROWS * (in_panels(columns) / PANEL); }

inline bool whole_lines(const float* out, int64_t rows, int64_t columns) {
  return columns % PANEL == 0 && worth_streaming(out, rows * columns * static_cast<int64_t>(sizeof(float)));
}

int forward(const Rows& x, int64_t num_rows, const Matrix& m, const float* bias, float* out, int64_t threads) {
  AlignedBuffer panels(in_panels(m.columns) * m.depth), padded(bias ? in_panels(m.columns) : 0);
  pack_panels(m, panels.data());
  if (bias) std::copy(bias, bias + m.columns, padded.data());
  const Product product{panels.data(), m.depth, m.columns, bias ? padded.data() : nullptr,
                        whole_lines(out, num_rows, m.columns)};
  const int64_t calls = tiles(BLOCK, m.columns);
#pragma omp parallel num_threads(static_cast<int>(threads)) if (num_rows > BLOCK)
  {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < num_rows; row += BLOCK)
      multiply_block(product, x.row(row), x.stride, std::min(BLOCK, num_rows - row), out + row * m.columns, m.columns,
                     x.next(row, num_rows, calls));
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

struct Gradients {
  float* x;       // [rows, x.width], or null
  float* weight;  // [grad.width, x.width], or null
  float* bias;    // [grad.width], or null
};

inline void add_rows(const Rows& grad, int64_t row, int64_t count, float* sums) {
  int64_t c = 0;
  for (; c + 8 <= grad.width; c += 8) {
    f32x8 total = load8(sums + c);
    for (int64_t r = row; r < row + count; ++r) total += load8(grad.row(r) + c);
    store8(sums + c, total);
  }
  for (; c < grad.width; ++c)
    for (int64_t r = row; r < row + count; ++r) sums[c] += grad.row(r)[c];
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

int backward(const Rows& grad, const Rows& x, int64_t num_rows, const float* weight, const Gradients& out,
             int64_t threads) {
  const int64_t outputs = grad.width, width = x.width;
  AlignedBuffer panels(out.x ? in_panels(width) * outputs : 0);
  if (out.x) pack_panels({weight, outputs, width, width, 1}, panels.data());
  const Product product{panels.data(), outputs, width, nullptr, out.x && whole_lines(out.x, num_rows, width)};
  // An item's sums: those of the weight's gradient, then those of the bias's.
  const int64_t weights = out.weight ? outputs * in_panels(width) : 0, room = weights + (out.bias ? in_panels(outputs) : 0);
  const int64_t step = rows_per_item(num_rows, std::max<int64_t>(1, room)), items = (num_rows + step - 1) / step;
  AlignedBuffer sums(std::max<int64_t>(1, items) * room);
  const int64_t calls = tiles(outputs, width);
#pragma omp parallel num_threads(static_cast<int>(threads)) if (items > 1)
  {
#pragma omp for schedule(dynamic, 1)
    for (int64_t item = 0; item < items; ++item) {
      float* mine = sums.data() + item * room;
      for (int64_t row = item * step; row < std::min((item + 1) * step, num_rows); row += BLOCK) {
        const int64_t count = std::min(BLOCK, num_rows - row);
        if (out.x)
          multiply_block(product, grad.row(row), grad.stride, count, out.x + row * width, width,
                         out.weight ? Ahead() : grad.next(row, num_rows, tiles(BLOCK, width)));
        if (out.bias) add_rows(grad, row, count, mine + weights);
        if (out.weight)
          add_outer_block(grad.row(row), grad.stride, outputs, x.row(row), x.stride, width, count, mine,
                          grad.next(row, num_rows, calls), x.next(row, num_rows, calls));
      }
    }
    stream_fence();
  }
  if (out.weight) add_items(sums.data(), items, room, outputs, in_panels(width), width, out.weight, threads);
  if (out.bias) add_items(sums.data() + weights, items, room, 1, outputs, outputs, out.bias, 1);
  return LH_OK;
}

}  // namespace
}  // namespace LONGHOP_VARIANT

using namespace LONGHOP_VARIANT;

// out [rows, outputs] = x [rows, width] times weight [outputs, width] transposed, plus bias [outputs] or null.
LH_KERNEL(linear)
(const float* x, int64_t rows, int64_t width, int64_t x_stride, const float* weight, int64_t outputs,
 const float* bias, float* out, int64_t num_threads) {
  return guarded([&] {
    return forward({x, x_stride, width}, rows, {weight, width, outputs, 1, width}, bias, out, num_threads);
  });
}

// Gradients of x, weight and bias; each may be null. Without dx no weight is read, without dweight no x.
LH_KERNEL(linear_grad)
(const float* grad, int64_t rows, int64_t outputs, int64_t grad_stride, const float* x, int64_t width,
 int64_t x_stride, const float* weight, float* dx, float* dweight, float* dbias, int64_t num_threads) {
  return guarded([&] {
    return backward({grad, grad_stride, outputs}, {x, x_stride, width}, rows, weight, {dx, dweight, dbias},
                    num_threads);
  });
}
