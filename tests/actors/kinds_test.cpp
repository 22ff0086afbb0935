#include <doctest/doctest.h>

#include <atomic>
#include <memory>

#include "kernels/nn/gpt.hpp"
#include "tests/actors/all_cuts.hpp"
#include "tests/support/port_modules.hpp"
#include "tests/support/recording_network.hpp"

// What may pass between stages: integers and masks beside floats, optional tensors, shapes that
// change from micro-batch to micro-batch.

using namespace sluice;
using namespace sluice::tests;
using nn::make_module;

namespace {

/// Gives h, and ids and a mask that it makes of nothing.
class three_kinds {
public:
  explicit three_kinds(std::shared_ptr<std::atomic<int>> wrong) : wrong_(std::move(wrong)) {}

  const module_ports& ports() const { return ports_; }

  tensor_list forward(stream& on, const micro_batch&, tensor_list inputs, activation&) {
    const auto rows = inputs[0].shape()[0];
    auto ids = on.allocate(dtype::int64, {rows});
    auto mask = on.allocate(dtype::boolean, {rows, width});
    for (std::int64_t i = 0; i < rows; ++i)
      ids.data<std::int64_t>()[i] = (std::int64_t{1} << 40) + i;
    for (std::int64_t i = 0; i < rows * width; ++i)
      mask.data<bool>()[i] = i % 3 != 0;
    inputs.push_back(std::move(ids));
    inputs.push_back(std::move(mask));
    return inputs;
  }

  tensor_list backward(stream&, const micro_batch&, tensor_list gradients, activation&) {
    if (!gradients[0] || gradients[1] || gradients[2])
      ++*wrong_;
    return {std::move(gradients[0])};
  }

private:
  std::shared_ptr<std::atomic<int>> wrong_;
  module_ports ports_{{{"x"}},
                      {{"h", dtype::float32},
                       {"ids", dtype::int64, std::vector{port::any}},
                       {"mask", dtype::boolean, std::vector{port::any, width}}}};
};

/// h where the mask is set, if there is a mask and the ids are the right ones; zero elsewhere.
class masked {
public:
  explicit masked(std::int64_t columns = width, bool optional = false)
    : ports_{{{"h", dtype::float32},
              {.name = "ids", .type = dtype::int64, .optional = true},
              {"mask", dtype::boolean, std::vector{port::any, columns}, optional}},
             {{"h", dtype::float32}}} {}

  const module_ports& ports() const { return ports_; }

  tensor_list forward(stream& on, const micro_batch&, tensor_list inputs, activation& save) {
    if (inputs[1] && std::as_const(inputs[1]).data<std::int64_t>()[0] != std::int64_t{1} << 40)
      throw std::runtime_error("the ids are not what was sent");
    save.saved.push_back(inputs[2]);
    return {apply(on, inputs[0], inputs[2])};
  }

  tensor_list backward(stream& on, const micro_batch&, tensor_list gradients, activation& saved) {
    return {apply(on, gradients[0], saved.saved[0])};
  }

private:
  static tensor apply(stream& on, const tensor& to, const tensor& mask) {
    auto result = on.zeros(dtype::float32, to.shape());
    for (std::int64_t i = 0; i < to.elements(); ++i)
      if (!mask || mask.data<bool>()[i])
        result.data<float>()[i] = to.data<float>()[i];
    return result;
  }

  module_ports ports_;
};

layer_list with_mask(std::shared_ptr<std::atomic<int>> wrong) {
  layer_list layers;
  layers.push_back(make_module("kinds", three_kinds(std::move(wrong))));
  layers.push_back(make_module("first", gain("a", width)));
  layers.push_back(make_module("masked.1", masked()));
  layers.push_back(make_module("second", gain("b", width)));
  layers.push_back(make_module("masked.2", masked()));
  layers.push_back(make_module("loss", distance("h", "y")));
  return layers;
}

} // namespace

TEST_CASE("int64 ids and a bool mask pass beside floats, and only the floats have a gradient") {
  const auto wrong = std::make_shared<std::atomic<int>>(0);
  check_all_cuts([&] { return with_mask(wrong); }, x_and_y, rows(4));
  CHECK(wrong->load() == 0);
  auto options = options_of(
    "1f1b", 2, 4, [&] { return with_mask(wrong); }, x_and_y);
  options.cut = {1, 5};
  const auto network = std::make_shared<recording_network>(3);
  options.network = network;
  pipeline(std::move(options)).step(rows(4));
  const auto forward = network->of(net::payload::activation);
  REQUIRE(forward.size() == 4);
  CHECK(forward[0].tensors[0] == std::pair{true, dtype::float32});
  CHECK(forward[0].tensors[1] == std::pair{true, dtype::int64});
  CHECK(forward[0].tensors[2] == std::pair{true, dtype::boolean});
  for (const auto& each : network->of(net::payload::gradient)) {
    REQUIRE(each.tensors.size() == 3);
    CHECK(each.tensors[0] == std::pair{true, dtype::float32});
    CHECK_FALSE(each.tensors[1].first);
    CHECK_FALSE(each.tensors[2].first);
  }
}

TEST_CASE("a mask for stages 1 and 2 of a wrong shape or type is refused by stage and name") {
  const auto layers = [] {
    layer_list made;
    made.push_back(make_module("first", gain("a", width, {{{"x"}}, {{"h"}}})));
    made.push_back(make_module("masked.1", masked()));
    made.push_back(make_module("masked.2", masked()));
    made.push_back(make_module("loss", distance("h", "y")));
    return made;
  };
  pipeline line(options_of("1f1b", 4, 2, layers, {.inputs = {"x", "mask"}, .targets = {"y"}}));
  kernels::buffer_pool pool(kernels::make_cpu_device());
  auto data = rows(2);
  for (auto& part : data)
    part.inputs.push_back(pool.zeros(dtype::boolean, {part.samples, width}));
  CHECK_NOTHROW(line.step(data));
  data[1].inputs[1] = pool.zeros(dtype::boolean, {1, width + 2});
  auto failure = error_of([&] { line.step(data); });
  CHECK(says(failure, "rank 1: F1 of chunk 1: masked.1: the input 'mask' has the shape [1, 7], "
                      "declared [any, 5]"));
  data[1].inputs[1] = pool.zeros(dtype::int32, {1, width});
  failure = error_of([&] { line.step(data); });
  CHECK(says(failure, "masked.1: the input 'mask' has elements of I32, declared BOOL"));
  data[1].inputs[1] = {};
  failure = error_of([&] { line.step(data); });
  CHECK(says(failure, "masked.1: the input 'mask' is absent"));
  data[1].inputs[1] = pool.zeros(dtype::boolean, {1, width});
  CHECK_NOTHROW(line.step(data)); // still usable
}

TEST_CASE("an optional tensor may be absent in one micro-batch and there in the next") {
  const auto layers = [] {
    layer_list made;
    made.push_back(make_module("first", gain("a", width, {{{"x"}}, {{"h"}}})));
    made.push_back(make_module("masked.1", masked(width, true)));
    made.push_back(make_module("second", gain("b", width)));
    made.push_back(make_module("masked.2", masked(width, true)));
    made.push_back(make_module("loss", distance("h", "y")));
    return made;
  };
  auto data = rows(4);
  kernels::buffer_pool pool(kernels::make_cpu_device());
  for (std::size_t m = 0; m < data.size(); ++m) {
    auto mask = pool.zeros(dtype::boolean, {data[m].samples, width});
    mask.data<bool>()[m] = true;
    data[m].inputs.push_back(m % 2 == 0 ? mask : tensor{});
  }
  check_all_cuts(layers, {.inputs = {"x", "mask"}, .targets = {"y"}}, data);
}

TEST_CASE("micro-batches of length 22 and 23 in one step give the bytes of one stage") {
  const auto layers = [] {
    return nn::make_gpt({.vocabulary = 19, .layers = 2, .width = 8, .heads = 2, .length = 23});
  };
  kernels::buffer_pool pool(kernels::make_cpu_device());
  batch data;
  for (const std::int64_t length : {22, 23, 22, 1}) {
    auto ids = pool.allocate(dtype::int32, {2, length});
    auto targets = pool.allocate(dtype::int32, {2, length});
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      ids.data<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7 % 19);
      targets.data<std::int32_t>()[i] = static_cast<std::int32_t>((i + 1) * 7 % 19);
    }
    data.push_back({{ids}, {targets}, 2, 2 * length});
  }
  check_all_cuts(layers, {}, data);
}
