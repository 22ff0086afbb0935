#include <doctest/doctest.h>

#include <atomic>
#include <limits>

#include <caf/scoped_actor.hpp>

#include "actors/pipeline.hpp"
#include "actors/stress/serial_run.hpp"
#include "kernels/nn/mlp.hpp"
#include "kernels/ops/bfloat16.hpp"
#include "net/local.hpp"

// What goes wrong, and what is left of the pipeline then: the same clear error, weights untouched,
// the pipeline usable, or an error at once where it is not.

using namespace sluice;
using namespace std::chrono_literals;
using kernels::nn::module_ptr;

namespace {

/// A layer that does nothing, until the test makes it fail or spoil its gradient.
class spoiler final : public kernels::nn::stage_module {
public:
  struct orders {
    std::atomic<int> throw_in_forward_at{-1}; ///< calls from now
    std::atomic<float> spoilt_gradient{0};    ///< what an element becomes, if not 0
  };

  explicit spoiler(std::shared_ptr<orders> from) : orders_(std::move(from)) {}

  const std::string& name() const override { return name_; }

  kernels::tensor_list forward(kernels::stream&, const kernels::nn::micro_batch&,
                               kernels::tensor_list inputs, kernels::nn::activation&) override {
    if (orders_->throw_in_forward_at >= 0 && orders_->throw_in_forward_at-- == 0)
      throw std::runtime_error("the spoiler was told to fail");
    return inputs;
  }

  kernels::tensor_list backward_input(kernels::stream&, const kernels::nn::micro_batch&,
                                      kernels::tensor_list gradients,
                                      kernels::nn::activation&) override {
    const float what = orders_->spoilt_gradient;
    if (what != 0 && gradients.at(0).type() == dtype::bfloat16)
      gradients.at(0).span<kernels::bfloat16>()[0] = kernels::ops::narrow(what);
    else if (what != 0)
      gradients.at(0).span<float>()[0] = what;
    return gradients;
  }

  void backward_weight(kernels::stream&, const kernels::nn::micro_batch&,
                       kernels::nn::activation&) override {}
  kernels::nn::parameter_list parameters() override {
    return {std::span<kernels::nn::parameter* const>{}, {}};
  }
  void initialise(kernels::stream&, std::uint64_t) override {}

private:
  std::string name_ = "spoiler";
  std::shared_ptr<orders> orders_;
};

/// Four layers and a head, with a spoiler as the fourth of six modules.
std::vector<module_ptr> spoiled_layers(const std::shared_ptr<spoiler::orders>& orders,
                                       dtype type = dtype::float32) {
  auto layers = kernels::nn::make_mlp({.features = 4, .width = 8, .layers = 4, .classes = 3}, type);
  layers.insert(layers.begin() + 3, std::make_unique<spoiler>(orders));
  return layers;
}

actors::batch batch_of(int micro_batches) {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  actors::batch result;
  for (int m = 0; m < micro_batches; ++m) {
    auto features = pool.allocate(kernels::dtype::float32, {2, 4});
    std::ranges::fill(features.span<float>(), 0.5F + static_cast<float>(m));
    result.push_back({{features}, {pool.zeros(kernels::dtype::int32, {2})}, 2, 2});
  }
  return result;
}

struct fixture {
  std::shared_ptr<spoiler::orders> orders = std::make_shared<spoiler::orders>();
  actors::pipeline_options options{.plan =
                                     plan::make_plan("1f1b", {.stages = 3, .micro_batches = 4}),
                                   .layers = [orders = orders] { return spoiled_layers(orders); },
                                   .cut = {2, 2, 2}};
};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& problem) {
    return problem.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Local channels that lose one kind of payload.
class lossy_network final : public net::network {
public:
  lossy_network(std::int32_t ranks, net::payload lost) : inner_(net::make_local_network(ranks)) {
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      ends_.push_back(std::make_unique<end>(inner_->at(rank), lost));
  }
  net::endpoint& at(std::int32_t rank) override {
    return *ends_.at(static_cast<std::size_t>(rank));
  }

private:
  struct end final : net::endpoint {
    end(net::endpoint& inner, net::payload lost) : inner(inner), lost(lost) {}
    void listen(net::endpoint_events events) override { inner.listen(std::move(events)); }
    void send(const net::transfer& what, kernels::tensor_list tensors) override {
      if (what.payload != lost)
        inner.send(what, std::move(tensors));
    }
    kernels::tensor_list take(const net::transfer& what, kernels::buffer_pool& pool) override {
      return inner.take(what, pool);
    }
    void forget(std::uint64_t epoch) override { inner.forget(epoch); }
    net::endpoint& inner;
    net::payload lost;
  };

  std::unique_ptr<net::network> inner_;
  std::vector<std::unique_ptr<end>> ends_;
};

} // namespace

TEST_CASE_FIXTURE(fixture, "an exception in a layer names rank, chunk, micro-batch and operation") {
  actors::pipeline line(std::move(options));
  line.train(batch_of(4));
  const auto before = stress::bytes_of(*line.state());
  orders->throw_in_forward_at = 2;
  const auto failure = error_of([&] { line.train(batch_of(4)); });
  CAPTURE(failure);
  CHECK(contains(failure, "step 2"));
  CHECK(contains(failure, "rank 1"));
  CHECK(contains(failure, "F2 of chunk 1"));
  CHECK(contains(failure, "the spoiler was told to fail"));
  SUBCASE("and no weight has changed") {
    CHECK(stress::bytes_of(*line.state()) == before);
  }
  SUBCASE("and the pipeline goes on as if nothing had been") {
    line.train(batch_of(4));
    fixture undisturbed;
    actors::pipeline other(std::move(undisturbed.options));
    other.train(batch_of(4));
    other.train(batch_of(4));
    CHECK(stress::bytes_of(*line.state()) == stress::bytes_of(*other.state()));
  }
}

TEST_CASE_FIXTURE(fixture, "a batch that lacks a micro-batch is refused before anything runs") {
  actors::pipeline line(std::move(options));
  const auto before = stress::bytes_of(*line.state());
  const auto failure = error_of([&] { line.train(batch_of(3)); });
  CAPTURE(failure);
  CHECK(contains(failure, "4 micro-batches"));
  CHECK(contains(failure, "has 3"));
  CHECK(stress::bytes_of(*line.state()) == before);
  CHECK_NOTHROW(line.train(batch_of(4)));
}

TEST_CASE_FIXTURE(fixture,
                  "a gradient that is not finite on one of four stages skips the update on "
                  "all of them, in float32 and bfloat16") {
  for (const auto type : {dtype::float32, dtype::bfloat16})
    for (const float what :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      CAPTURE(name(type));
      CAPTURE(what);
      auto four = options;
      four.plan = plan::make_plan("1f1b", {.stages = 4, .micro_batches = 4});
      four.cut = {2, 2, 1, 1};
      four.layers = [this, type] { return spoiled_layers(orders, type); };
      actors::pipeline line(std::move(four));
      line.train(batch_of(4));
      const auto before = stress::bytes_of(*line.state());
      const auto loss = line.evaluate(batch_of(4)).loss;
      orders->spoilt_gradient = what;
      const auto report = line.train(batch_of(4));
      CHECK(report.skipped);
      CHECK_FALSE(std::isfinite(report.gradient_norm));
      CHECK(stress::bytes_of(*line.state()) == before);
      CHECK(line.evaluate(batch_of(4)).loss == loss); // what the layers compute with, too
      orders->spoilt_gradient = 0;
      CHECK_FALSE(line.train(batch_of(4)).skipped);
      CHECK(stress::bytes_of(*line.state()) != before);
    }
}

TEST_CASE_FIXTURE(fixture, "a lost transfer ends in an error that says who waits for what") {
  options.network = std::make_shared<lossy_network>(4, net::payload::gradient);
  options.deadline = 300ms;
  actors::pipeline line(std::move(options));
  const auto failure = error_of([&] { line.train(batch_of(4)); });
  CAPTURE(failure);
  CHECK(contains(failure, "no progress for 300 ms"));
  CHECK(contains(failure, "needs a gradient from chunk 1 on rank 1"));
  CHECK(contains(failure, "credits in use"));
}

TEST_CASE_FIXTURE(fixture, "losses come from the last stage alone") {
  actors::pipeline line(std::move(options));
  const auto report = line.train(batch_of(4));
  CHECK_FALSE(report.stages[0].loss.has_value());
  CHECK_FALSE(report.stages[1].loss.has_value());
  REQUIRE(report.stages[2].loss.has_value());
  CHECK(*report.stages[2].loss / static_cast<double>(report.valid_targets) == report.loss);
}

TEST_CASE_FIXTURE(fixture, "after a stage actor has ended every request fails at once") {
  actors::pipeline line(std::move(options));
  line.train(batch_of(4));
  line.end_stage(1);
  const auto failure = error_of([&] { line.train(batch_of(4)); });
  CAPTURE(failure);
  CHECK(contains(failure, "step 2: "));
  CHECK(contains(failure, "the stage of rank 1 has ended"));
  // The loss is known by now, so these are not even begun, and say what they would have been.
  CHECK(contains(error_of([&] { line.state(); }),
                 "fetching the weights after step 1: not begun: the stage of rank 1 has ended"));
  CHECK(contains(error_of([&] { line.train(batch_of(4)); }),
                 "step 2: not begun: the stage of rank 1 has ended"));
}

TEST_CASE("a plan that cannot finish is refused with its cycle before any actor starts") {
  auto plan = plan::make_plan("1f1b", {.stages = 2, .micro_batches = 2});
  std::swap(plan.by_rank[0].forwards[0], plan.by_rank[0].forwards[1]);
  plan.by_rank[0].credits = 1;
  const auto failure = error_of([&] {
    actors::pipeline line(
      {.plan = plan, .layers = [] { return kernels::nn::make_mlp({.features = 4, .layers = 3}); }});
  });
  CAPTURE(failure);
  CHECK(contains(failure, "the plan cannot run"));
  CHECK(contains(failure, "rank 0"));
}

TEST_CASE("a plan with skip edges that the model does not have is refused") {
  auto plan = plan::make_plan("1f1b", {.stages = 4, .micro_batches = 2});
  plan.skips = {{0, 3}};
  const auto failure = error_of([&] {
    actors::pipeline line(
      {.plan = plan, .layers = [] { return kernels::nn::make_mlp({.features = 4, .layers = 3}); }});
  });
  CAPTURE(failure);
  CHECK(contains(failure, "a skip from part 0 to part 3"));
}

TEST_CASE("fewer layers than stages is an error that says both numbers") {
  const auto failure = error_of([] {
    actors::pipeline line(
      {.plan = plan::make_plan("1f1b", {.stages = 4, .micro_batches = 2}),
       .layers = [] { return kernels::nn::make_mlp({.features = 4, .layers = 2}); }});
  });
  CAPTURE(failure);
  CHECK(contains(failure, "3"));
  CHECK(contains(failure, "4"));
}
