// Softmax of pairs' scores over each row, per head, and its gradient.
//
// A row's scores are one run of pairs * heads numbers; number t belongs to head t mod heads. Vectors of eight
// walk the run whatever the number of heads is: the head of their first lane cycles through a few phases, and
// what is known per head lies in arrays that repeat the heads once they end.
#include <cmath>
#include <numeric>

#include "staging.h"

namespace LONGHOP_VARIANT {
namespace {

struct Heads {
  int64_t heads, step, phases;  // step: from one vector's first head to the next one's

  explicit Heads(int64_t heads)
      : heads(heads), step(8 % heads), phases(heads / std::gcd<int64_t>(8, heads)) {}
  // Numbers of an array that repeats the heads, so that eight can be loaded from any of them.
  int64_t repeated() const { return heads + 8; }
  void repeat(float* values) const {
    for (int64_t l = heads; l < heads + 8; ++l) values[l] = values[l - heads];
  }
};

template <class T>
inline f32x8 load_run(const T* p, int64_t lanes, float fill) {
  if (lanes == 8) return load8(p);
  f32x8 v = splat(fill);
  for (int64_t l = 0; l < lanes; ++l) v[l] = load1(p + l);
  return v;
}
template <class T>
inline void store_run(T* p, f32x8 v, int64_t lanes) {
  if (lanes == 8)
    store8(p, v);
  else
    store_some(p, v, lanes);
}

// Calls visit(t, lanes, first head) for the vectors of a run.
template <class Visit>
inline void walk(const Heads& h, int64_t count, const Visit& visit) {
  int64_t head = 0;
  for (int64_t t = 0; t < count; t += 8) {
    visit(t, std::min<int64_t>(8, count - t), head);
    head += h.step;
    if (head >= h.heads) head -= h.heads;
  }
}

// Per head, value(t, lanes, first head) of a run joined by `join`; out [heads]. `sums` [8 * phases] has one
// vector a phase, so none is read back in pieces that two stores wrote.
template <class Value, class Join>
inline void reduce(const Heads& h, int64_t count, float start, float* sums, float* out, const Value& value,
                   const Join& join) {
  const int64_t divisor = h.heads / h.phases;  // phases start at multiples of it
  for (int64_t phase = 0; phase < h.phases; ++phase) store8(sums + 8 * phase, splat(start));
  if (h.phases == 1) {
    f32x8 sum = splat(start);
    walk(h, count, [&](int64_t t, int64_t lanes, int64_t head) { sum = join(sum, value(t, lanes, head)); });
    store8(sums, sum);
  } else {
    walk(h, count, [&](int64_t t, int64_t lanes, int64_t head) {
      float* sum = sums + 8 * (head / divisor);
      store8(sum, join(load8(sum), value(t, lanes, head)));
    });
  }
  for (int64_t head = 0; head < h.heads; ++head) out[head] = start;
  for (int64_t phase = 0; phase < h.phases; ++phase)
    for (int64_t l = 0; l < 8; ++l) {
      float& total = out[(phase * divisor + l) % h.heads];
      total = join(splat(total), splat(sums[8 * phase + l]))[0];
    }
}

inline f32x8 add8(f32x8 a, f32x8 b) { return a + b; }

template <class T>
struct Forward {
  const Heads& h;
  const T* scores;
  T* out;

  // Per head of a run: the largest score (0 when none is above -inf) and the sum of weights around it.
  void statistics(int64_t begin, int64_t end, float* sums, float* top, float* sum) const {
    const T* s = scores + begin * h.heads;
    const int64_t count = (end - begin) * h.heads;
    reduce(h, count, -INFINITY, sums, top,
           [&](int64_t t, int64_t lanes, int64_t) { return load_run(s + t, lanes, -INFINITY); }, max8);
    for (int64_t head = 0; head < h.heads; ++head) top[head] = top[head] == -INFINITY ? 0.0f : top[head];
    h.repeat(top);
    const auto weight = [&](int64_t t, int64_t lanes, int64_t head) {
      return exp8(load_run(s + t, lanes, -INFINITY) - load8(top + head));
    };
    reduce(h, count, 0.0f, sums, sum, weight, add8);
  }
  void write(int64_t begin, int64_t end, const float* top, float* sum) const {
    const T* s = scores + begin * h.heads;
    T* o = out + begin * h.heads;
    for (int64_t head = 0; head < h.heads; ++head) sum[head] = sum[head] == 0.0f ? 0.0f : 1.0f / sum[head];
    h.repeat(sum);
    walk(h, (end - begin) * h.heads, [&](int64_t t, int64_t lanes, int64_t head) {
      const f32x8 weight = exp8(load_run(s + t, lanes, -INFINITY) - load8(top + head));
      store_run(o + t, weight * load8(sum + head), lanes);
    });
  }
  // Statistics of a row from those of its parts, which follow each other every `stride` numbers.
  void merge(float* first, int64_t parts, int64_t stride) const {
    for (int64_t head = 0; head < h.heads; ++head) {
      float top = first[head], sum = 0.0f;
      for (int64_t part = 1; part < parts; ++part) top = std::max(top, first[part * stride + head]);
      for (int64_t part = 0; part < parts; ++part) {
        const float* p = first + part * stride + head;
        sum += p[h.repeated()] * exp8(splat(*p - top))[0];
      }
      first[head] = top, first[h.repeated() + head] = sum;
    }
    h.repeat(first);
  }
};

template <class T>
struct Backward {
  const Heads& h;
  const T *grad, *weights;
  T* out;

  // sum [heads] = weights . grad; `top` is not used.
  void statistics(int64_t begin, int64_t end, float* sums, float*, float* sum) const {
    const T *g = grad + begin * h.heads, *w = weights + begin * h.heads;
    const auto product = [&](int64_t t, int64_t lanes, int64_t) {
      return load_run(g + t, lanes, 0.0f) * load_run(w + t, lanes, 0.0f);
    };
    reduce(h, (end - begin) * h.heads, 0.0f, sums, sum, product, add8);
  }
  void write(int64_t begin, int64_t end, const float*, float* sum) const {
    const T *g = grad + begin * h.heads, *w = weights + begin * h.heads;
    T* o = out + begin * h.heads;
    h.repeat(sum);
    walk(h, (end - begin) * h.heads, [&](int64_t t, int64_t lanes, int64_t head) {
      const f32x8 difference = load_run(g + t, lanes, 0.0f) - load8(sum + head);
      store_run(o + t, load_run(w + t, lanes, 0.0f) * difference, lanes);
    });
  }
  void merge(float* first, int64_t parts, int64_t stride) const {
    for (int64_t part = 1; part < parts; ++part)
      for (int64_t head = 0; head < h.heads; ++head)
        first[h.repeated() + head] += first[part * stride + h.repeated() + head];
  }
};

// Whole rows at once; a cut row in three steps: statistics of its parts, their merge, the results.
template <class Pass>
class Run {
 public:
  Run(const Pairs& pairs, const Heads& h, const Pass& pass, int64_t threads)
      : pairs_(pairs), h_(h), pass_(pass), items_(cut_rows(pairs.rowptr, pairs.num_rows, GRAIN, LONGEST)) {
    for (const WorkItem& item : items_) num_parts_ += item.part >= 0;
    team_ = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads, items_.size())));
    statistics_.resize((num_parts_ + team_) * stride());
    sums_.resize(team_ * 8 * h.phases);
  }

  int operator()() {
    const int64_t num_items = static_cast<int64_t>(items_.size());
#pragma omp parallel num_threads(team_)
    {
#pragma omp for schedule(dynamic, 1)
      for (int64_t n = 0; n < num_items; ++n) first_step(items_[n]);
#pragma omp for schedule(dynamic, 1)
      for (int64_t n = 0; n < num_items; ++n) merge_step(items_[n]);
#pragma omp for schedule(dynamic, 1)
      for (int64_t n = 0; n < num_items; ++n) write_step(items_[n]);
    }
    return LH_OK;
  }

 private:
  int64_t stride() const { return 2 * h_.repeated(); }  // of statistics: top, then sum
  float* part(int64_t number) { return statistics_.data() + number * stride(); }
  float* mine() { return part(num_parts_ + omp_get_thread_num()); }
  float* sums() { return sums_.data() + omp_get_thread_num() * 8 * h_.phases; }

  void first_step(const WorkItem& item) {
    float* top = item.part >= 0 ? part(item.part) : mine();
    float* sum = top + h_.repeated();
    if (item.part >= 0) return pass_.statistics(item.begin, item.end, sums(), top, sum);
    for (int64_t row = item.row; row < item.row_end; ++row) {
      pass_.statistics(pairs_.rowptr[row], pairs_.rowptr[row + 1], sums(), top, sum);
      pass_.write(pairs_.rowptr[row], pairs_.rowptr[row + 1], top, sum);
    }
  }
  void merge_step(const WorkItem& item) {
    if (item.part < 0 || item.begin != pairs_.rowptr[item.row]) return;
    pass_.merge(part(item.part), (pairs_.length(item.row) + LONGEST - 1) / LONGEST, stride());
  }
  void write_step(const WorkItem& item) {
    if (item.part < 0) return;
    const float* top = part(item.part - (item.begin - pairs_.rowptr[item.row]) / LONGEST);
    // write() changes the sums: each part has a copy.
    float* sum = std::copy(top, top + stride(), mine()) - h_.repeated();
    pass_.write(item.begin, item.end, top, sum);
  }

  const Pairs& pairs_;
  const Heads& h_;
  const Pass& pass_;
  const std::vector<WorkItem> items_;
  int64_t num_parts_ = 0;
  int team_ = 1;
  std::vector<float> statistics_, sums_;
};

template <class Pass>
int run(const Pairs& pairs, const Heads& h, const Pass& pass, int64_t threads) {
  return offsets_valid(pairs) ? Run<Pass>(pairs, h, pass, threads)() : LH_BAD_INDEX;
}

}  // namespace
}  // namespace LONGHOP_VARIANT

using namespace LONGHOP_VARIANT;

// out [num_pairs, heads] = softmax of scores over the pairs of each row; -inf counts as absent.
LH_KERNEL(edge_softmax)
(const int64_t* rowptr, int64_t num_rows, int64_t num_pairs, const void* scores, int64_t is_bf16, int64_t heads,
 void* out, int64_t num_threads) {
  const Pairs pairs{rowptr, num_rows, nullptr, nullptr, false, num_pairs, num_pairs, nullptr, nullptr};
  return guarded([&] {
    const Heads h(heads);
    if (is_bf16) return run(pairs, h, Forward<bf16>{h, (const bf16*)scores, (bf16*)out}, num_threads);
    return run(pairs, h, Forward<float>{h, (const float*)scores, (float*)out}, num_threads);
  });
}

// out = weights * (grad - sum of weights * grad over the row), `weights` being the forward's result.
LH_KERNEL(edge_softmax_grad)
(const int64_t* rowptr, int64_t num_rows, int64_t num_pairs, const void* grad, const void* weights,
 int64_t is_bf16, int64_t heads, void* out, int64_t num_threads) {
  const Pairs pairs{rowptr, num_rows, nullptr, nullptr, false, num_pairs, num_pairs, nullptr, nullptr};
  return guarded([&] {
    const Heads h(heads);
    if (is_bf16)
      return run(pairs, h, Backward<bf16>{h, (const bf16*)grad, (const bf16*)weights, (bf16*)out}, num_threads);
    return run(pairs, h, Backward<float>{h, (const float*)grad, (const float*)weights, (float*)out}, num_threads);
  });
}
