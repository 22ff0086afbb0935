#include <cmath>
#include <stdexcept>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/reduce.hpp"
#include "kernels/ops/philox.hpp"
#include "kernels/stream.hpp"

// Fused causal attention: no matrix of scores is ever in memory. Forward: a warp for a row of
// queries, keys and values in tiles of 32 in shared memory, softmax as it goes (Milakov and
// Gimelshein 2018; Dao et al. 2022). Backward: the gradients of queries by rows, then those of keys
// and values by tiles of keys, each block alone with its output: no atomics.
//
// Computed in float32 on the ordinary units, not the tensor cores: expected at 30 to 50% of the
// device's float32 rate; each tile is read from memory once for every eight rows.

namespace sluice::kernels::cuda {

namespace {

constexpr int tile = 32;      // keys in shared memory, one a lane
constexpr int block_rows = 8; // of queries in a block, one a warp
constexpr int most_depth = 128;

struct place {
  int samples, length, heads, depth;
  float scale; ///< 1 / sqrt(depth), applied to the queries

  // Element (sample, row, part, head, 0) of the packed tensor.
  __device__ std::int64_t packed(std::int64_t sample, int row, int part, int head) const {
    return ((sample * length + row) * 3 + part) * heads * depth
         + static_cast<std::int64_t>(head) * depth;
  }
  __device__ std::int64_t mixed(std::int64_t sample, int row, int head) const {
    return (sample * length + row) * heads * depth + static_cast<std::int64_t>(head) * depth;
  }
};

struct drop_values {
  ops::random_key key;
  std::uint64_t first_sample;
  std::uint32_t threshold;
  float scale;
  bool active;

  /// What the probability of (row, column) is multiplied by: the processor's mask.
  __device__ float factor(const place& at, std::int64_t sample, int head, int row,
                          int column) const {
    if (!active)
      return 1;
    const auto call = ops::prepare_philox(key, first_sample + static_cast<std::uint64_t>(sample));
    const auto pitch = static_cast<std::uint64_t>((at.length + 63) / 64 * 64);
    const auto line = static_cast<std::uint64_t>(head) * at.length + row;
    return ops::philox_word(call, line * pitch + column) >= threshold ? scale : 0;
  }
};

/// Rows [first, first + tile) of one part of one head into shared memory, zeros beyond the end.
template <class T>
__device__ inline void load_tile(const T* packed, const place& at, int part, int first,
                                 float* into) {
  const int head = blockIdx.y;
  const std::int64_t sample = blockIdx.z;
  for (int i = threadIdx.x; i < tile * at.depth; i += blockDim.x) {
    const int row = first + i / at.depth;
    const float scale = part == 0 ? at.scale : 1;
    into[i / at.depth * (at.depth + 1) + i % at.depth] =
      row < at.length ? scale * load(packed + at.packed(sample, row, part, head) + i % at.depth)
                      : 0.0F;
  }
}

/// The same of the output's gradient.
template <class T>
__device__ inline void load_gradients(const T* dy, const place& at, int first, float* into) {
  for (int i = threadIdx.x; i < tile * at.depth; i += blockDim.x) {
    const int row = first + i / at.depth;
    into[i / at.depth * (at.depth + 1) + i % at.depth] =
      row < at.length ? load(dy + at.mixed(blockIdx.z, row, blockIdx.y) + i % at.depth) : 0.0F;
  }
}

__device__ inline float dot(const float* left, const float* right, int depth) {
  float sum = 0;
  for (int i = 0; i < depth; ++i)
    sum += left[i] * right[i];
  return sum;
}

/// One row of one head into a warp's own shared memory.
template <class T>
__device__ inline void load_row(const T* from, float scale, int depth, bool exists, float* into) {
  for (int i = threadIdx.x % 32; i < depth; i += 32)
    into[i] = exists ? scale * load(from + i) : 0.0F;
  __syncwarp();
}

// Shared: keys and values [tile][depth + 1] each, then a query a warp.
template <class T>
__global__ void __launch_bounds__(32 * block_rows)
  attention_kernel(const T* packed, T* output, float* log_sums, place at, drop_values drop) {
  SLUICE_DYNAMIC_SHARED(float, shared);
  float* keys = shared;
  float* values = keys + tile * (at.depth + 1);
  const int lane = threadIdx.x % 32;
  const int row = blockIdx.x * block_rows + threadIdx.x / 32;
  const bool exists = row < at.length;
  const int head = blockIdx.y;
  const std::int64_t sample = blockIdx.z;
  float* query = values + tile * (at.depth + 1) + threadIdx.x / 32 * at.depth;
  load_row(packed + at.packed(sample, exists ? row : 0, 0, head), at.scale, at.depth, exists,
           query);
  float top = -INFINITY;
  float sum = 0;
  float mixed[most_depth / 32] = {};
  const int last = min(static_cast<int>(blockIdx.x + 1) * block_rows, at.length);
  for (int first = 0; first < last; first += tile) {
    __syncthreads();
    load_tile(packed, at, 1, first, keys);
    load_tile(packed, at, 2, first, values);
    __syncthreads();
    const int column = first + lane;
    const bool seen = exists && column <= row;
    const float score = seen ? dot(query, keys + lane * (at.depth + 1), at.depth) : -INFINITY;
    const float next = fmaxf(top, warp_max(score));
    const float shrink = top == -INFINITY ? 0.0F : __expf(top - next);
    const float p = seen ? __expf(score - next) : 0.0F;
    sum = sum * shrink + warp_sum(p);
    top = next;
    const float kept = seen ? p * drop.factor(at, sample, head, row, column) : 0.0F;
#pragma unroll
    for (int part = 0; part < most_depth / 32; ++part)
      mixed[part] *= shrink;
    for (int j = 0; j < tile; ++j) {
      const float share = __shfl_sync(~0U, kept, j);
#pragma unroll
      for (int part = 0; part < most_depth / 32; ++part)
        if (lane + 32 * part < at.depth)
          mixed[part] += share * values[j * (at.depth + 1) + lane + 32 * part];
    }
  }
  if (!exists)
    return;
#pragma unroll
  for (int part = 0; part < most_depth / 32; ++part)
    if (lane + 32 * part < at.depth)
      store(output + at.mixed(sample, row, head) + lane + 32 * part, mixed[part] / sum);
  if (lane == 0)
    log_sums[(sample * at.heads + head) * at.length + row] = top + logf(sum);
}

template <class T>
struct backward_pointers {
  const T* dy;
  const T* packed;
  const float* log_sums;
  float* shared_sums; ///< sum over j of p dp, of each row; like log_sums
  T* gradient;
};

// With dp = (dy . v) mask: d score = p (dp - sum p dp). Two passes over the keys: the sum, then the
// gradient. Shared as in the forward, with a second row a warp for dy.
template <class T>
__global__ void __launch_bounds__(32 * block_rows)
  query_gradient_kernel(backward_pointers<T> from, place at, drop_values drop) {
  SLUICE_DYNAMIC_SHARED(float, shared);
  float* keys = shared;
  float* values = keys + tile * (at.depth + 1);
  const int lane = threadIdx.x % 32;
  const int row = blockIdx.x * block_rows + threadIdx.x / 32;
  const bool exists = row < at.length;
  const int head = blockIdx.y;
  const std::int64_t sample = blockIdx.z;
  float* query = values + tile * (at.depth + 1) + threadIdx.x / 32 * 2 * at.depth;
  float* dy = query + at.depth;
  const int safe = exists ? row : 0;
  load_row(from.packed + at.packed(sample, safe, 0, head), at.scale, at.depth, exists, query);
  load_row(from.dy + at.mixed(sample, safe, head), 1.0F, at.depth, exists, dy);
  const auto line = (sample * at.heads + head) * at.length + safe;
  const float log_sum = from.log_sums[line];
  const int last = min(static_cast<int>(blockIdx.x + 1) * block_rows, at.length);
  float shared_sum = 0;
  float gradient[most_depth / 32] = {};
  for (int pass = 0; pass < 2; ++pass) {
    for (int first = 0; first < last; first += tile) {
      __syncthreads();
      load_tile(from.packed, at, 1, first, keys);
      load_tile(from.packed, at, 2, first, values);
      __syncthreads();
      const int column = first + lane;
      float p = 0;
      float dp = 0;
      if (exists && column <= row) {
        p = __expf(dot(query, keys + lane * (at.depth + 1), at.depth) - log_sum);
        dp = dot(dy, values + lane * (at.depth + 1), at.depth)
           * drop.factor(at, sample, head, row, column);
      }
      if (pass == 0) {
        shared_sum += warp_sum(p * dp);
        continue;
      }
      const float ds = p * (dp - shared_sum);
      for (int j = 0; j < tile; ++j) {
        const float share = __shfl_sync(~0U, ds, j);
#pragma unroll
        for (int part = 0; part < most_depth / 32; ++part)
          if (lane + 32 * part < at.depth)
            gradient[part] += share * keys[j * (at.depth + 1) + lane + 32 * part];
      }
    }
  }
  if (!exists)
    return;
#pragma unroll
  for (int part = 0; part < most_depth / 32; ++part)
    if (lane + 32 * part < at.depth)
      store(from.gradient + at.packed(sample, row, 0, head) + lane + 32 * part,
            gradient[part] * at.scale);
  if (lane == 0)
    from.shared_sums[line] = shared_sum;
}

// A block for 8 keys, a warp each, which goes over the rows of queries that see them in tiles.
// Shared: queries and dy [tile][depth + 1] each, then a key and a value a warp.
template <class T>
__global__ void __launch_bounds__(32 * block_rows)
  key_gradient_kernel(backward_pointers<T> from, place at, drop_values drop) {
  SLUICE_DYNAMIC_SHARED(float, shared);
  float* queries = shared;
  float* dys = queries + tile * (at.depth + 1);
  const int lane = threadIdx.x % 32;
  const int column = blockIdx.x * block_rows + threadIdx.x / 32;
  const bool exists = column < at.length;
  const int head = blockIdx.y;
  const std::int64_t sample = blockIdx.z;
  float* key = dys + tile * (at.depth + 1) + threadIdx.x / 32 * 2 * at.depth;
  float* value = key + at.depth;
  const int safe = exists ? column : 0;
  load_row(from.packed + at.packed(sample, safe, 1, head), 1.0F, at.depth, exists, key);
  load_row(from.packed + at.packed(sample, safe, 2, head), 1.0F, at.depth, exists, value);
  float key_gradient[most_depth / 32] = {};
  float value_gradient[most_depth / 32] = {};
  for (int first = blockIdx.x * block_rows / tile * tile; first < at.length; first += tile) {
    __syncthreads();
    load_tile(from.packed, at, 0, first, queries);
    load_gradients(from.dy, at, first, dys);
    __syncthreads();
    const int row = first + lane;
    float kept = 0;
    float ds = 0;
    if (exists && row < at.length && column <= row) {
      const auto line = (sample * at.heads + head) * at.length + row;
      const float p =
        __expf(dot(queries + lane * (at.depth + 1), key, at.depth) - from.log_sums[line]);
      const float factor = drop.factor(at, sample, head, row, column);
      kept = p * factor;
      ds =
        p * (dot(dys + lane * (at.depth + 1), value, at.depth) * factor - from.shared_sums[line]);
    }
    for (int i = 0; i < tile; ++i) {
      const float share = __shfl_sync(~0U, kept, i);
      const float slope = __shfl_sync(~0U, ds, i);
#pragma unroll
      for (int part = 0; part < most_depth / 32; ++part)
        if (lane + 32 * part < at.depth) {
          value_gradient[part] += share * dys[i * (at.depth + 1) + lane + 32 * part];
          key_gradient[part] += slope * queries[i * (at.depth + 1) + lane + 32 * part];
        }
    }
  }
  if (!exists)
    return;
#pragma unroll
  for (int part = 0; part < most_depth / 32; ++part)
    if (lane + 32 * part < at.depth) {
      store(from.gradient + at.packed(sample, column, 1, head) + lane + 32 * part,
            key_gradient[part]);
      store(from.gradient + at.packed(sample, column, 2, head) + lane + 32 * part,
            value_gradient[part]);
    }
}

place place_of(const tensor& packed, std::int64_t heads) {
  const auto& s = packed.shape();
  const auto depth = s[2] / (3 * heads);
  if (depth > most_depth || s[0] > 65535 || heads > 65535)
    throw std::invalid_argument("attention: heads deeper than 128, or more than 65535 heads or "
                                "samples, have no kernel");
  return {static_cast<int>(s[0]), static_cast<int>(s[1]), static_cast<int>(heads),
          static_cast<int>(depth), static_cast<float>(1 / std::sqrt(static_cast<double>(depth)))};
}

drop_values values_of(const ops::dropout_mask& mask) {
  return {mask.key, static_cast<std::uint64_t>(mask.first_sample), mask.threshold(),
          static_cast<float>(mask.scale()), mask.active()};
}

dim3 grid_of(const place& at) {
  return dim3(static_cast<unsigned>((at.length + block_rows - 1) / block_rows),
              static_cast<unsigned>(at.heads), static_cast<unsigned>(at.samples));
}

std::size_t shared_bytes(const place& at, int rows_a_warp) {
  return sizeof(float)
       * static_cast<std::size_t>(2 * tile * (at.depth + 1) + block_rows * rows_a_warp * at.depth);
}

} // namespace

void operations::attention(const tensor& packed, const ops::dropout_mask& mask, tensor& output,
                           tensor& log_sums) {
  const auto at = place_of(packed, log_sums.shape()[1]);
  if (packed.elements() == 0)
    return;
  with_element(packed.type(), "attention", [&]<class T>(T) {
    check(SLUICE_LAUNCH(attention_kernel<T>, grid_of(at), dim3(32 * block_rows),
                        shared_bytes(at, 1), stream_, elements<T>(packed), elements<T>(output),
                        elements<float>(log_sums), at, values_of(mask)),
          "attention");
  });
}

void operations::attention_backward(stream& on, const attention_operands& from,
                                    const ops::dropout_mask& mask, tensor& gradient) {
  const auto at = place_of(from.packed, from.log_sums.shape()[1]);
  if (from.packed.elements() == 0)
    return;
  auto shared_sums = on.allocate(dtype::float32, from.log_sums.shape());
  with_element(from.packed.type(), "attention", [&]<class T>(T) {
    const backward_pointers<T> pointers{elements<T>(from.output_gradient), elements<T>(from.packed),
                                        elements<float>(from.log_sums),
                                        elements<float>(shared_sums), elements<T>(gradient)};
    check(SLUICE_LAUNCH(query_gradient_kernel<T>, grid_of(at), dim3(32 * block_rows),
                        shared_bytes(at, 2), stream_, pointers, at, values_of(mask)),
          "attention's backward");
    check(SLUICE_LAUNCH(key_gradient_kernel<T>, grid_of(at), dim3(32 * block_rows),
                        shared_bytes(at, 2), stream_, pointers, at, values_of(mask)),
          "attention's backward");
  });
}

} // namespace sluice::kernels::cuda
