#include "kernels/ops/attention.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/ops/bfloat16.hpp"
#include "kernels/ops/device_operations.hpp"
#include "kernels/ops/product.hpp"
#include "kernels/ops/require.hpp"
#include "kernels/ops/softmax.hpp"

namespace sluice::kernels::ops {

namespace {

// Rows of probabilities made at once: columns to the right of a block's last row are never made.
constexpr std::int64_t row_block = 128;

struct extents {
  std::int64_t samples, length, heads, depth;
  std::int64_t width() const { return heads * depth; }
};

extents measure(const tensor& packed, std::int64_t heads) {
  const auto& s = packed.shape();
  if (s.rank() != 3 || heads < 1 || s[2] % (3 * heads) != 0)
    throw std::invalid_argument(fmt::format(
      "attention: {} does not hold queries, keys and values of {} heads", to_string(s), heads));
  return {s[0], s[1], heads, s[2] / (3 * heads)};
}

// The query, key or value part of one head of one sample, as a matrix [length, depth].
template <class Tensor>
auto head_of(Tensor& packed, const extents& e, std::int64_t sample, std::int64_t head, int part) {
  return matrix_of(packed).block(sample * e.length, part * e.width() + head * e.depth, e.length,
                                 e.depth);
}

template <class T>
T* row_of(const matrix& of, std::int64_t i) {
  return static_cast<T*>(of.first) + i * of.row_stride;
}

template <class T>
void copy_rows(const const_matrix& from, const matrix& to, T scale) {
  for (std::int64_t i = 0; i < to.rows; ++i) {
    const T* x = static_cast<const T*>(from.first) + i * from.row_stride;
    T* y = row_of<T>(to, i);
    for (std::int64_t j = 0; j < to.columns; ++j)
      y[j] = x[j] * scale;
  }
}

// One head of one sample, and its dropout. Probability (i, j) is element (head T + i) pitch + j of
// the sample; the pitch is T rounded up to a whole random group.
struct head_place {
  const extents& e;
  const dropout_mask& mask;
  std::int64_t sample;
  std::int64_t head;

  void draw(std::int64_t row, std::span<std::uint32_t> words) const {
    constexpr auto group = static_cast<std::int64_t>(random_group);
    const auto pitch = (e.length + group - 1) / group * group;
    random_words(mask.key, static_cast<std::uint64_t>(mask.first_sample + sample),
                 static_cast<std::uint64_t>((head * e.length + row) * pitch), words);
  }
};

// What the work on one head needs, reused for all heads. Heads are copied out of the packed tensor
// and back: oneDNN has its fast products, and those without allocation, for dense operands only.
struct workspace {
  enum part { q, k, v, mixed, dq, dk, dv, parts };

  tensor heads;         // [parts, length, depth]
  tensor probabilities; // [row_block, length] or fewer columns
  tensor gradients;     // of the probabilities, in the backward
  tensor words;         // [length], random

  matrix dense(part which) {
    const auto length = heads.shape()[1];
    return matrix_of(heads).block(which * length, 0, length, heads.shape()[2]);
  }

  std::span<std::uint32_t> random_row(std::int64_t count) {
    // The unsigned twin of the element type may alias it.
    return {reinterpret_cast<std::uint32_t*>(words.data<std::int32_t>()),
            static_cast<std::size_t>(count)};
  }
};

workspace make_workspace(stream& on, dtype type, const extents& e, std::int64_t heads) {
  const shape rows{std::min(row_block, e.length), e.length};
  return {on.allocate(type, {heads, e.length, e.depth}), on.allocate(type, rows),
          heads > workspace::dq ? on.allocate(type, rows) : tensor{},
          on.allocate(dtype::int32, {e.length})};
}

template <class T>
void drop_row(T* values, std::span<const std::uint32_t> words, const dropout_mask& mask) {
  const auto threshold = mask.threshold();
  const auto scale = static_cast<T>(mask.scale());
  for (std::size_t j = 0; j < words.size(); ++j)
    values[j] = words[j] >= threshold ? values[j] * scale : T{0};
}

// left right^T, for rows [first, first + count) of the left and [0, first + count) of the right.
matrix score(stream& on, const const_matrix& left, const const_matrix& right, std::int64_t first,
             std::int64_t count, tensor& into) {
  const auto width = first + count;
  auto scores = matrix_of(into).block(0, 0, count, width);
  scores.row_stride = width;
  product(on, left.block(first, 0, count, left.columns),
          right.block(0, 0, width, right.columns).transposed(), scores, write_mode::overwrite);
  return scores;
}

template <class T>
void softmax_rows(const matrix& scores, std::int64_t first, const head_place& at, T* log_sums,
                  workspace& space) {
  for (std::int64_t i = 0; i < scores.rows; ++i) {
    T* row = row_of<T>(scores, i);
    const auto seen = first + i + 1;
    log_sums[first + i] = softmax_row(row, seen);
    std::fill(row + seen, row + scores.columns, T{0});
    if (at.mask.active()) {
      const auto words = space.random_row(seen);
      at.draw(first + i, words);
      drop_row(row, words, at.mask);
    }
  }
}

// In: scores, and the gradients of what the values were multiplied by. Out: those probabilities
// after dropout, and the gradients of the scores.
template <class T>
void backward_rows(const matrix& scores, const matrix& gradients, std::int64_t first,
                   const head_place& at, const T* log_sums, workspace& space) {
  for (std::int64_t i = 0; i < scores.rows; ++i) {
    T* p = row_of<T>(scores, i);
    T* g = row_of<T>(gradients, i);
    const auto seen = first + i + 1;
    softmax_again(p, seen, log_sums[first + i]);
    const auto words = space.random_row(seen);
    if (at.mask.active()) {
      at.draw(first + i, words);
      drop_row(g, words, at.mask);
    }
    const T shared = lane_sum<T>(seen, [p, g](std::int64_t j) { return p[j] * g[j]; });
    for (std::int64_t j = 0; j < seen; ++j)
      g[j] = p[j] * (g[j] - shared);
    if (at.mask.active())
      drop_row(p, words, at.mask);
    std::fill(p + seen, p + scores.columns, T{0});
    std::fill(g + seen, g + scores.columns, T{0});
  }
}

template <class T>
void forward_head(stream& on, const head_place& at, T* log_sums, workspace& space) {
  const auto length = at.e.length;
  const auto depth = at.e.depth;
  for (std::int64_t first = 0; first < length; first += row_block) {
    const auto count = std::min(row_block, length - first);
    const auto scores = score(on, space.dense(workspace::q), space.dense(workspace::k), first,
                              count, space.probabilities);
    softmax_rows<T>(scores, first, at, log_sums, space);
    product(on, scores, space.dense(workspace::v).block(0, 0, first + count, depth),
            space.dense(workspace::mixed).block(first, 0, count, depth), write_mode::overwrite);
  }
}

// `mixed` holds the output's gradient here.
template <class T>
void backward_head(stream& on, const head_place& at, const T* log_sums, workspace& space) {
  // From the last block to the first: the last one covers all columns and overwrites, the others
  // add to the columns that they see.
  auto mode = write_mode::overwrite;
  const auto length = at.e.length;
  const auto depth = at.e.depth;
  const auto q = space.dense(workspace::q);
  const auto k = space.dense(workspace::k);
  const auto dy = space.dense(workspace::mixed);
  for (auto first = (length - 1) / row_block * row_block; first >= 0; first -= row_block) {
    const auto count = std::min(row_block, length - first);
    const auto width = first + count;
    const auto scores = score(on, q, k, first, count, space.probabilities);
    const auto gradients = score(on, dy, space.dense(workspace::v), first, count, space.gradients);
    backward_rows<T>(scores, gradients, first, at, log_sums, space);
    product(on, scores.transposed(), dy.block(first, 0, count, depth),
            space.dense(workspace::dv).block(0, 0, width, depth), mode);
    product(on, gradients, k.block(0, 0, width, depth),
            space.dense(workspace::dq).block(first, 0, count, depth), write_mode::overwrite);
    product(on, gradients.transposed(), q.block(first, 0, count, depth),
            space.dense(workspace::dk).block(0, 0, width, depth), mode);
    mode = write_mode::accumulate;
  }
}

// 1 / sqrt(depth) goes into the queries: cheaper than into the scores.
template <class T>
T query_scale(const extents& e) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(e.depth)));
}

template <class T>
void copy_operands(const tensor& packed, const head_place& at, workspace& space) {
  const auto from = [&](int part) { return head_of(packed, at.e, at.sample, at.head, part); };
  copy_rows<T>(from(0), space.dense(workspace::q), query_scale<T>(at.e));
  copy_rows<T>(from(1), space.dense(workspace::k), T{1});
  copy_rows<T>(from(2), space.dense(workspace::v), T{1});
}

} // namespace

attention_result causal_attention(stream& on, const tensor& packed, std::int64_t heads,
                                  const dropout_mask& mask) {
  const auto e = measure(packed, heads);
  if (by_float(on, packed)) {
    auto wide = causal_attention(on, widened(on, packed), heads, mask);
    return {rounded(on, wide.output), std::move(wide.log_sums)};
  }
  attention_result result{
    on.allocate(packed.type(), {e.samples, e.length, e.width()}),
    on.allocate(accumulation_type(packed.type()), {e.samples, e.heads, e.length})};
  if (auto* device = on.operations()) {
    device->attention(packed, mask, result.output, result.log_sums);
    return result;
  }
  auto space = make_workspace(on, packed.type(), e, workspace::dq);
  with_float(packed.type(), "attention", [&]<class T>(T) {
    T* log_sums = result.log_sums.template data<T>();
    for (std::int64_t sample = 0; sample < e.samples; ++sample)
      for (std::int64_t head = 0; head < e.heads; ++head, log_sums += e.length) {
        const head_place at{e, mask, sample, head};
        copy_operands<T>(packed, at, space);
        forward_head<T>(on, at, log_sums, space);
        copy_rows<T>(space.dense(workspace::mixed), head_of(result.output, e, sample, head, 0),
                     T{1});
      }
  });
  return result;
}

tensor causal_attention_backward(stream& on, const tensor& output_gradient, const tensor& packed,
                                 const tensor& log_sums, const dropout_mask& mask) {
  const auto e = measure(packed, log_sums.shape()[1]);
  require(output_gradient, packed.type(), {e.samples, e.length, e.width()}, "attention",
          "the output's gradient");
  if (by_float(on, packed))
    return rounded(on, causal_attention_backward(on, widened(on, output_gradient),
                                                 widened(on, packed), log_sums, mask));
  auto gradient = on.allocate(packed.type(), packed.shape());
  if (auto* device = on.operations()) {
    device->attention_backward(on, {output_gradient, packed, log_sums}, mask, gradient);
    return gradient;
  }
  auto space = make_workspace(on, packed.type(), e, workspace::parts);
  with_float(packed.type(), "attention", [&]<class T>(T) {
    const T* sums = log_sums.data<T>();
    for (std::int64_t sample = 0; sample < e.samples; ++sample)
      for (std::int64_t head = 0; head < e.heads; ++head, sums += e.length) {
        const head_place at{e, mask, sample, head};
        copy_operands<T>(packed, at, space);
        copy_rows<T>(head_of(output_gradient, e, sample, head, 0), space.dense(workspace::mixed),
                     T{1});
        backward_head<T>(on, at, sums, space);
        const auto into = [&](int part) { return head_of(gradient, e, sample, head, part); };
        copy_rows<T>(space.dense(workspace::dq), into(0), query_scale<T>(e));
        copy_rows<T>(space.dense(workspace::dk), into(1), T{1});
        copy_rows<T>(space.dense(workspace::dv), into(2), T{1});
      }
  });
  return gradient;
}

} // namespace sluice::kernels::ops
