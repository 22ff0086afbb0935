#include <doctest/doctest.h>

#include <deque>
#include <map>
#include <optional>

#include "actors/model_layout.hpp"
#include "actors/pipeline.hpp"
#include "actors/stress/serial_run.hpp"
#include "kernels/nn/gpt.hpp"
#include "kernels/nn/master.hpp"
#include "kernels/nn/sequential.hpp"
#include "kernels/ops/cast.hpp"
#include "net/loopback.hpp"
#include "tests/support/batches.hpp"

// PipeDream and PipeDream-2BW: updates within the step, each micro-batch with the weights that the
// plan says. The reference runs the micro-batches one after another and keeps every version.

using namespace sluice;
using kernels::nn::module_ptr;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t vocabulary = 13;
constexpr std::int64_t length = 6;
constexpr double learning_rate = 1e-2;

std::vector<module_ptr> untied_gpt(dtype type) {
  return kernels::nn::make_gpt({.vocabulary = vocabulary,
                                .layers = 2,
                                .width = 8,
                                .heads = 2,
                                .length = length,
                                .dropout = 0.1,
                                .tied = false},
                               type);
}

/// Each part of the model with all its versions, run by a plain loop.
class stashing_run {
public:
  stashing_run(const plan::plan& of, dtype type) : plan_(of) {
    auto layout = actors::lay_out({.plan = of,
                                   .layers = [type] { return untied_gpt(type); },
                                   .cut = {},
                                   .layer_costs = {},
                                   .recompute = false});
    for (auto& rank : layout.chunks) {
      auto& part = parts_.emplace_back();
      part.module = std::move(rank.front().module);
      part.module->initialise(stream_, 1);
      for (auto& each : part.module->parameters()) {
        part.masters.push_back(kernels::nn::make_master(stream_, each));
        part.state.push_back(optimizer_->make_state(stream_, part.updated(part.state.size())));
      }
    }
  }

  double step(const actors::batch& data) {
    for (auto& part : parts_)
      part.versions.assign(1, values(part));
    kernels::nn::micro_batch which{.seed = 1, .step = step_};
    double losses = 0;
    std::int64_t valid = 0;
    for (std::size_t m = 0; m < data.size(); ++m) {
      which.loss_scale = scale(data, m);
      losses += run(data[m], which, m);
      which.first_sample += data[m].samples;
      valid += data[m].valid_targets;
    }
    ++step_;
    return losses / static_cast<double>(valid);
  }

  stress::byte_map bytes() {
    stress::byte_map all;
    for (auto& part : parts_)
      for (std::size_t i = 0; i < part.state.size(); ++i) {
        const auto& each = part.updated(i);
        const auto bytes = std::as_const(each.value).bytes_span();
        all[each.name] = {bytes.begin(), bytes.end()};
      }
    return all;
  }

private:
  using version = std::vector<kernels::tensor>;

  struct part_state {
    module_ptr module;
    std::vector<std::optional<kernels::nn::parameter>> masters; ///< by parameter, where it has one
    std::vector<std::vector<kernels::tensor>> state;            ///< of the optimizer, likewise
    std::vector<version> versions;
    std::uint64_t updates = 0;

    kernels::nn::parameter& updated(std::size_t i) {
      return masters[i] ? *masters[i] : module->parameters()[i];
    }
  };

  version values(part_state& part) {
    version copies;
    for (auto& each : part.module->parameters()) {
      auto& copy = copies.emplace_back(stream_.allocate(each.value.type(), each.value.shape()));
      std::ranges::copy(std::as_const(each.value).bytes_span(), copy.bytes_span().begin());
    }
    return copies;
  }

  static void use(part_state& part, const version& of) {
    auto next = of.begin();
    for (auto& each : part.module->parameters())
      each.value = *next++;
  }

  double scale(const actors::batch& data, std::size_t m) const {
    std::size_t begin = 0;
    for (const auto& update : plan_.by_rank.front().updates) {
      const auto end = static_cast<std::size_t>(update.micro_batch) + 1;
      if (m < end) {
        std::int64_t valid = 0;
        for (auto i = begin; i < end; ++i)
          valid += data[i].valid_targets;
        return 1.0 / static_cast<double>(valid);
      }
      begin = end;
    }
    return 0;
  }

  double run(const actors::batch_part& data, const kernels::nn::micro_batch& which, std::size_t m) {
    std::vector<kernels::nn::activation> saved;
    auto flowing = data.inputs;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      use_version_of(p, m);
      if (p + 1 == parts_.size())
        flowing.push_back(data.targets[0]);
      saved.push_back(parts_[p].module->make_activation());
      flowing = parts_[p].module->forward(stream_, which, std::move(flowing), saved.back());
    }
    const auto loss = flowing.at(0).span<double>()[0];
    flowing.clear();
    for (auto p = parts_.size(); p-- > 0;) {
      use_version_of(p, m);
      flowing = parts_[p].module->backward_input(stream_, which, std::move(flowing), saved[p]);
      parts_[p].module->backward_weight(stream_, which, saved[p]);
    }
    for (std::size_t p = 0; p < parts_.size(); ++p)
      for (const auto& update : plan_.by_rank[p].updates)
        if (static_cast<std::size_t>(update.micro_batch) == m)
          apply(parts_[p]);
    return loss;
  }

  void use_version_of(std::size_t p, std::size_t m) {
    const auto wanted = static_cast<std::size_t>(plan_.by_rank[p].forwards[m].version);
    use(parts_[p], parts_[p].versions.at(wanted));
  }

  void apply(part_state& part) {
    use(part, part.versions.back());
    auto next = values(part);
    use(part, next);
    for (std::size_t i = 0; i < part.state.size(); ++i) {
      auto& each = part.module->parameters()[i];
      optimizer_->step(stream_, part.updated(i), part.state[i], learning_rate, part.updates + 1,
                       1.0);
      if (part.masters[i]) {
        const kernels::ops::rounding copy{part.masters[i]->value, each.value};
        kernels::ops::round_all(stream_, {&copy, 1});
      }
      std::ranges::fill(each.gradient.bytes_span(), std::byte{0});
    }
    ++part.updates;
    part.versions.push_back(std::move(next));
  }

  const plan::plan& plan_;
  kernels::stream stream_{kernels::make_cpu_device()};
  std::shared_ptr<const kernels::nn::optimizer> optimizer_ = kernels::nn::make_adamw();
  std::vector<part_state> parts_;
  std::uint64_t step_ = 0;
};

actors::pipeline_options options_for(const plan::plan& plan, dtype type = dtype::float32) {
  return {.plan = plan,
          .layers = [type] { return untied_gpt(type); },
          .optimizer = kernels::nn::make_adamw(),
          .learning_rate = [](std::uint64_t) { return learning_rate; }};
}

/// Trains three steps over the network and compares losses, weights and counts of versions.
void check_against_serial(const std::string& schedule, std::int32_t stages,
                          std::int32_t micro_batches,
                          std::shared_ptr<net::network> network = nullptr,
                          dtype type = dtype::float32) {
  CAPTURE(schedule);
  CAPTURE(stages);
  CAPTURE(micro_batches);
  const auto plan = plan::make_plan(schedule, {.stages = stages, .micro_batches = micro_batches});
  stashing_run reference(plan, type);
  auto options = options_for(plan, type);
  options.network = std::move(network);
  actors::pipeline line(std::move(options));
  tests::token_batches batches(vocabulary, length, 0.2);
  const std::vector<std::int64_t> samples(static_cast<std::size_t>(micro_batches), 2);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const auto expected = reference.step(batches.make(step, samples));
    const auto report = line.train(batches.make(step, samples));
    REQUIRE(report.loss == doctest::Approx(expected).epsilon(1e-12));
    for (const auto& stage : report.stages) {
      const auto most = schedule == "pipedream" ? stages - stage.rank : 2;
      CHECK(stage.memory.peak_weight_versions <= most);
    }
  }
  const auto state = line.state();
  for (const auto& each : state->parameters) {
    CAPTURE(each.name);
    const auto bytes = each.tensors.front().bytes_span();
    REQUIRE(std::vector<std::byte>(bytes.begin(), bytes.end()) == reference.bytes().at(each.name));
  }
}

} // namespace

TEST_CASE("asynchronous schedules give the bytes of a serial run with the stashed versions") {
  for (const std::string schedule : {"pipedream", "pipedream-2bw"})
    for (const int stages : {1, 2, 3, 4})
      for (const int micro_batches : {1, 2, 3, 5, 8})
        check_against_serial(schedule, stages, micro_batches);
}

TEST_CASE("asynchronous schedules in bfloat16 stash rounded weights and update float32 masters") {
  for (const std::string schedule : {"pipedream", "pipedream-2bw"})
    for (const int stages : {1, 2, 4})
      check_against_serial(schedule, stages, 5, nullptr, dtype::bfloat16);
}

TEST_CASE("PipeDream does not hang where a send ends only with its receive, and holds its buffer "
          "longer: communication and tasks wait apart [onnxruntime#3823]") {
  for (const std::string schedule : {"pipedream", "pipedream-2bw"})
    check_against_serial(
      schedule, 2, 8,
      net::make_loopback_network(3, {.slots = 1,
                                     .latency = {},
                                     .completion = [](const auto&) { return 2ms; },
                                     .poison = true}));
}

TEST_CASE("an asynchronous plan refuses what needs all stages at one moment") {
  const auto plan = plan::make_plan("pipedream", {.stages = 2, .micro_batches = 4});
  SUBCASE("clipping by the global norm") {
    auto options = options_for(plan);
    options.clip = 1;
    CHECK_THROWS_WITH_AS(actors::pipeline line(std::move(options)),
                         doctest::Contains("set clip to 0"), std::invalid_argument);
  }
  SUBCASE("a weight tied over two stages") {
    auto options = options_for(plan);
    options.layers = [] {
      return kernels::nn::make_gpt(
        {.vocabulary = vocabulary, .layers = 1, .width = 8, .heads = 2, .length = length});
    };
    CHECK_THROWS_WITH_AS(actors::pipeline line(std::move(options)),
                         doctest::Contains("wte.weight cannot be shared"), std::invalid_argument);
  }
}
