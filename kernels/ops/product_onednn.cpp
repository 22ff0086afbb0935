#include "kernels/ops/product_backend.hpp"

#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include <oneapi/dnnl/dnnl.hpp>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "kernels/stream.hpp"

namespace sluice::kernels {

namespace {

// What makes two products the same to oneDNN. The strides are part of it: heads of one packed
// tensor and whole matrices differ in nothing else.
struct product_key {
  std::array<std::int64_t, 8> numbers{}; // m, n, k, strides of a and b, row stride of c
  bool accumulates = false;
  bool biased = false;

  bool operator==(const product_key&) const = default;
};

struct hash_product_key {
  std::size_t operator()(const product_key& key) const noexcept {
    std::uint64_t hash = (key.accumulates ? 2U : 0U) + (key.biased ? 1U : 0U);
    for (const auto number : key.numbers)
      hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9E3779B97F4A7C15U + (hash >> 29U);
    return static_cast<std::size_t>(hash);
  }
};

struct prepared_product {
  dnnl::matmul run;
  dnnl::memory a, b, c, bias, scratch;
  std::int64_t scratch_bytes = 0;
};

// Shapes vary with the lengths of the micro-batches; past this many the cache starts anew.
constexpr std::size_t most_prepared = 4096;

dnnl::memory::desc describe(const ops::const_matrix& view) {
  return {{view.rows, view.columns},
          dnnl::memory::data_type::f32,
          dnnl::memory::dims{view.row_stride, view.column_stride}};
}

prepared_product prepare(const dnnl::engine& engine, const ops::float_product& what) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (what.mode == ops::write_mode::accumulate) {
    dnnl::post_ops after;
    after.append_sum(1.0F);
    attributes.set_post_ops(after);
  }
  const auto a = describe(what.a);
  const auto b = describe(what.b);
  const auto c = describe(what.c);
  const dnnl::memory::desc bias({1, what.c.columns}, dnnl::memory::data_type::f32,
                                dnnl::memory::format_tag::ab);
  const auto wanted =
    what.bias != nullptr ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  const dnnl::matmul::primitive_desc chosen(wanted, attributes, engine);
  const auto scratch = chosen.scratchpad_desc();
  return {dnnl::matmul(chosen),
          {a, engine, DNNL_MEMORY_NONE},
          {b, engine, DNNL_MEMORY_NONE},
          {c, engine, DNNL_MEMORY_NONE},
          {bias, engine, DNNL_MEMORY_NONE},
          {scratch, engine, DNNL_MEMORY_NONE},
          static_cast<std::int64_t>(scratch.get_size())};
}

} // namespace

struct product_cache::implementation {
  explicit implementation(int count) : threads(count) {}

  prepared_product& find(const ops::float_product& what) {
    const product_key key{{what.c.rows, what.c.columns, what.a.columns, what.a.row_stride,
                           what.a.column_stride, what.b.row_stride, what.b.column_stride,
                           what.c.row_stride},
                          what.mode == ops::write_mode::accumulate,
                          what.bias != nullptr};
    if (const auto known = prepared.find(key); known != prepared.end())
      return known->second;
    if (prepared.size() >= most_prepared)
      prepared.clear();
    return prepared.emplace(key, prepare(engine, what)).first->second;
  }

  int threads;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream queue{engine};
  std::unordered_map<product_key, prepared_product, hash_product_key> prepared;
};

product_cache::product_cache(int threads) : impl_(std::make_unique<implementation>(threads)) {}
product_cache::~product_cache() = default;

namespace ops {

void multiply_float(stream& on, const float_product& what) {
  auto& cache = on.products().get();
#ifdef _OPENMP
  omp_set_num_threads(
    cache.threads); // of the calling thread; oneDNN asks when it prepares and runs
#endif
  try {
    auto& found = cache.find(what);
    found.a.set_data_handle(const_cast<void*>(what.a.first));
    found.b.set_data_handle(const_cast<void*>(what.b.first));
    found.c.set_data_handle(what.c.first);
    tensor scratch;
    if (found.scratch_bytes > 0) {
      scratch = on.allocate(dtype::float32, {(found.scratch_bytes + 3) / 4});
      found.scratch.set_data_handle(scratch.data<float>());
    }
    std::array<dnnl_exec_arg_t, 5> arguments{{{DNNL_ARG_SRC, found.a.get()},
                                              {DNNL_ARG_WEIGHTS, found.b.get()},
                                              {DNNL_ARG_DST, found.c.get()},
                                              {DNNL_ARG_SCRATCHPAD, found.scratch.get()},
                                              {DNNL_ARG_BIAS, found.bias.get()}}};
    if (what.bias != nullptr)
      found.bias.set_data_handle(const_cast<float*>(what.bias));
    // By the C function: the C++ one builds a hash map for every call.
    dnnl::error::wrap_c_api(dnnl_primitive_execute(found.run.get(), cache.queue.get(),
                                                   what.bias != nullptr ? 5 : 4, arguments.data()),
                            "oneDNN could not run a matrix product");
  } catch (const dnnl::error& failure) {
    throw std::runtime_error("product: " + std::string(failure.what()));
  }
}

} // namespace ops
} // namespace sluice::kernels
