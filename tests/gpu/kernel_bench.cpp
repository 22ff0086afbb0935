// How near each kernel comes to what the device can do: bytes a second for what memory bounds,
// operations a second for products, timed by CUDA's events.
//
//   kernel_bench [--tiny] [--limits]
//
// --tiny: sizes at which it ends at once, to see that it runs. --limits: the device's limits alone,
// as JSON, for gpt_speed.py.

#include <cuda_runtime_api.h>

#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/copy.hpp"
#include "kernels/cuda/check.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/nn/init.hpp"
#include "kernels/ops/adamw.hpp"
#include "kernels/ops/add.hpp"
#include "kernels/ops/attention.hpp"
#include "kernels/ops/cast.hpp"
#include "kernels/ops/cross_entropy.hpp"
#include "kernels/ops/dropout.hpp"
#include "kernels/ops/embedding.hpp"
#include "kernels/ops/gelu.hpp"
#include "kernels/ops/layer_norm.hpp"
#include "kernels/ops/linear.hpp"
#include "kernels/ops/sum_of_squares.hpp"

using namespace sluice::kernels;

namespace {

/// What the data sheet says, 0 where that is not known. Products of float32 do without tensor
/// cores, as ours do.
struct limits {
  double bytes = 0; ///< a second
  double float32 = 0;
  double bfloat16 = 0;
};

int attribute(cudaDeviceAttr which) {
  int value = 0;
  cuda::check(cudaDeviceGetAttribute(&value, which, 0), "asking for a limit");
  return value;
}

limits limits_of(const cuda::description& gpu) {
  // Operations of one multiprocessor in a clock, dense: NVIDIA's architecture white papers.
  struct capability {
    const char* name;
    double float32, bfloat16;
  };
  constexpr capability known[] = {{"8.0", 128, 2048},
                                  {"8.6", 256, 1024},
                                  {"8.9", 256, 1024},
                                  {"9.0", 256, 4096},
                                  {"10.0", 256, 8192}};
  limits found;
  // Both edges of the clock carry data.
  found.bytes =
    2e3 * attribute(cudaDevAttrMemoryClockRate) * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  const double clocks = 1e3 * attribute(cudaDevAttrClockRate) * gpu.multiprocessors;
  for (const auto& each : known)
    if (gpu.capability == each.name) {
      found.float32 = clocks * each.float32;
      found.bfloat16 = clocks * each.bfloat16;
    }
  return found;
}

struct sizes {
  std::int64_t samples, length, width, heads, vocabulary, parameters;

  std::int64_t rows() const { return samples * length; }
};
constexpr sizes real{8, 1024, 1024, 16, 50304, 300};
constexpr sizes tiny{2, 8, 16, 2, 40, 90};

/// Seconds of one call, the mean of ten, after three that are not counted.
double time(const cuda::device& gpu, const std::function<void()>& call) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cuda::check(cudaEventCreateWithFlags(&begin, cudaEventDefault), "an event");
  cuda::check(cudaEventCreateWithFlags(&end, cudaEventDefault), "an event");
  for (int i = 0; i < 3; ++i)
    call();
  cuda::check(cudaEventRecord(begin, gpu.compute_stream()), "an event");
  for (int i = 0; i < 10; ++i)
    call();
  cuda::check(cudaEventRecord(end, gpu.compute_stream()), "an event");
  cuda::check(cudaEventSynchronize(end), "waiting for the GPU");
  float milliseconds = 0;
  cuda::check(cudaEventElapsedTime(&milliseconds, begin, end), "an event");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return milliseconds / 1e4;
}

class bench {
public:
  bench(std::shared_ptr<cuda::device> gpu, const limits& most, const sizes& of)
    : gpu_(gpu),
      on_(gpu),
      most_(most),
      n_(of) {}

  void run(dtype type) {
    type_ = type;
    pointwise();
    rows();
    products();
    attention();
    ends();
  }

  void update() {
    type_ = dtype::float32;
    std::vector<tensor> all;
    std::vector<tensor> brief;
    for (std::int64_t i = 0; i < 4 * n_.parameters; ++i) // of a model: one large, some small
      all.push_back(filled({i % 12 < 4 ? n_.width * n_.width : n_.width}));
    for (std::size_t i = 0; i < all.size(); i += 4)
      brief.push_back(on_.allocate(dtype::bfloat16, all[i].shape()));
    std::vector<ops::adamw_operand> operands;
    std::vector<ops::rounding> roundings;
    double count = 0;
    for (std::size_t i = 0; i < all.size(); i += 4) {
      for (std::size_t k = 1; k < 4; ++k)
        all[i + k] = filled(all[i].shape());
      operands.push_back({all[i], all[i + 1], all[i + 2], all[i + 3]});
      roundings.push_back({all[i], brief[i / 4]});
      count += static_cast<double>(all[i].elements());
    }
    moves("AdamW, all parameters", 28 * count, [&] { ops::adamw(on_, operands, {}); });
    moves("rounding of masters", 6 * count, [&] { ops::round_all(on_, roundings); });
    std::vector<tensor> gradients;
    for (std::size_t i = 0; i < all.size(); i += 4)
      gradients.push_back(all[i + 1]);
    moves("squares, and their way to the host", 4 * count,
          [&] { ops::sums_of_squares(on_, gradients); });
  }

private:
  tensor filled(const shape& extents) {
    auto made = on_.allocate(type_, extents);
    nn::fill_initial(made, nn::normal(0.5), 1, "bench");
    return made;
  }
  tensor sums(const shape& extents) { return on_.zeros(accumulation_type(type_), extents); }
  tensor ids(std::int64_t below) {
    stream host(make_cpu_device());
    auto made = host.allocate(dtype::int32, {n_.samples, n_.length});
    std::int64_t next = 0;
    for (auto& each : made.span<std::int32_t>())
      each = static_cast<std::int32_t>(next = (next * 7919 + 17) % below);
    return copied(on_, made);
  }
  double bytes(std::int64_t elements) const {
    return static_cast<double>(elements) * static_cast<double>(size_bytes(type_));
  }

  void moves(const char* name, double bytes, const std::function<void()>& call) {
    say(name, "GB/s", 1e9, bytes / time(*gpu_, call), most_.bytes);
  }
  void computes(const char* name, double operations, const std::function<void()>& call) {
    say(name, "TFLOP/s", 1e12, operations / time(*gpu_, call),
        type_ == dtype::bfloat16 ? most_.bfloat16 : most_.float32);
  }
  void say(const char* name, const char* unit, double scale, double value, double most) const {
    if (most_.bytes == 0) { // no GPU has that: it is emulated, and its speed says nothing
      fmt::print("{:<36} {:<5} ran\n", name, sluice::kernels::name(type_));
      return;
    }
    fmt::print("{:<36} {:<5} {:>9.2f} {:<8} {}\n", name, sluice::kernels::name(type_),
               value / scale, unit,
               most > 0 ? fmt::format("{:.0f}% of {:.0f}", 100 * value / most, most / scale)
                        : "no limit known");
  }

  void pointwise() {
    const shape extents{n_.samples, n_.length, 4 * n_.width};
    auto x = filled(extents);
    const auto y = filled(extents);
    const auto all = bytes(x.elements());
    moves("copy", 2 * all, [&] { copy(y, x); });
    moves("add", 3 * all, [&] { ops::add(on_, x, y); });
    moves("GELU", 2 * all, [&] { ops::gelu(on_, x); });
    moves("GELU, backward", 3 * all, [&] { ops::gelu_backward(on_, y, x); });
    moves("dropout", 2 * all, [&] { ops::dropout(on_, x, {0.1, {1, 2, 3, 4}}); });
  }

  void rows() {
    const auto x = filled({n_.rows(), n_.width});
    const auto weight = filled({n_.width});
    const auto all = bytes(x.elements());
    const auto kept = ops::layer_norm(on_, x, weight, weight).statistics;
    moves("layer norm", 2 * all, [&] { ops::layer_norm(on_, x, weight, weight); });
    moves("layer norm, backward", 5 * all,
          [&] { ops::layer_norm_backward(on_, x, x, kept, weight); });
  }

  void products() {
    const auto x = filled({n_.rows(), n_.width});
    const auto wide = filled({n_.rows(), 4 * n_.width});
    const auto up = filled({4 * n_.width, n_.width});
    const auto down = filled({n_.width, 4 * n_.width});
    const auto bias = filled({4 * n_.width});
    auto up_sums = sums(up.shape());
    auto bias_sums = sums(bias.shape());
    const auto operations = 8.0 * static_cast<double>(n_.rows() * n_.width * n_.width);
    computes("linear", operations, [&] { ops::linear(on_, x, up, bias); });
    computes("linear and GELU", operations, [&] { ops::linear_gelu(on_, x, up, bias); });
    computes("linear, input's gradient", operations,
             [&] { ops::linear_input_gradient(on_, wide, up); });
    computes("the same through a GELU", operations,
             [&] { ops::linear_gelu_input_gradient(on_, x, down, wide); });
    computes("linear, weight's and bias's gradient", operations,
             [&] { ops::linear_weight_gradient(on_, wide, x, up_sums, bias_sums); });
  }

  void attention() {
    const auto packed = filled({n_.samples, n_.length, 3 * n_.width});
    const auto gradient = filled({n_.samples, n_.length, n_.width});
    const auto sums = ops::causal_attention(on_, packed, n_.heads, {}).log_sums;
    // Two products, of which half is masked; five in the backward.
    const auto one = static_cast<double>(n_.samples * n_.length * n_.length * n_.width);
    computes("attention", 2 * one, [&] { ops::causal_attention(on_, packed, n_.heads, {}); });
    computes("attention, backward", 5 * one,
             [&] { ops::causal_attention_backward(on_, gradient, packed, sums, {}); });
  }

  void ends() {
    const auto tokens = ids(n_.vocabulary);
    const auto table = filled({n_.vocabulary, n_.width});
    const auto places = filled({n_.length, n_.width});
    const auto gradient = filled({n_.samples, n_.length, n_.width});
    auto table_sums = sums(table.shape());
    auto place_sums = sums(places.shape());
    const auto all = bytes(gradient.elements());
    moves("embedding", 3 * all, [&] { ops::embedding(on_, tokens, table, places); });
    moves("embedding, backward", 6 * all,
          [&] { ops::embedding_backward(on_, gradient, tokens, table_sums, place_sums); });
    auto logits = filled({n_.samples, n_.length, n_.vocabulary});
    const auto large = bytes(logits.elements());
    moves("cross-entropy", 3 * large, [&] { ops::cross_entropy(on_, logits, tokens); });
    moves("cross-entropy, backward", 2 * large,
          [&] { ops::cross_entropy_backward(on_, logits, tokens, 1e-3); });
  }

  std::shared_ptr<cuda::device> gpu_;
  stream on_;
  limits most_;
  sizes n_;
  dtype type_ = dtype::float32;
};

bool has(int argc, char** argv, const char* option) {
  for (int i = 1; i < argc; ++i)
    if (std::strcmp(argv[i], option) == 0)
      return true;
  return false;
}

int run(int argc, char** argv) {
  std::string why;
  const auto gpus = cuda::list(why);
  if (gpus.empty()) {
    fmt::print(stderr, "SKIPPED: no GPU here, so nothing was measured: {}\n", why);
    return 77;
  }
  const auto most = limits_of(gpus.front());
  if (has(argc, argv, "--limits")) {
    fmt::print("{{\"name\": \"{}\", \"bytes\": {}, \"float32\": {}, \"bfloat16\": {}}}\n",
               gpus.front().name, most.bytes, most.float32, most.bfloat16);
    return 0;
  }
  fmt::print("{}: {}\n", gpus.front().name,
             most.bytes > 0 ? "beside what its data sheet allows" : "which has no speed");
  bench all(std::make_shared<cuda::device>(0), most, has(argc, argv, "--tiny") ? tiny : real);
  for (const auto type : {dtype::float32, dtype::bfloat16})
    all.run(type);
  all.update();
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& problem) {
    fmt::print(stderr, "error: {}\n", problem.what());
    return 1;
  }
}
