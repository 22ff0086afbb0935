// Stages on emulated GPUs of several workers, each with an actor system of its own and real
// connections over the loopback; the emulation is one process's, so they share it.

#include <doctest/doctest.h>

#include <atomic>

#include "actors/crew.hpp"
#include "actors/worker.hpp"
#include "tests/actors/cuda_training.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

std::atomic<int> connected_by_nccl{0}; ///< workers, so far

/// A worker that listens, and offers these devices.
struct gpu_worker {
  explicit gpu_worker(std::vector<std::string> devices)
    : worker(hosts.system(), config(std::move(devices))) {
    at.port = hosts.publish(worker.actor(), at);
  }

  static std::shared_ptr<const actors::worker_config> config(std::vector<std::string> devices) {
    auto made = std::make_shared<actors::worker_config>();
    made->name = "there";
    made->stages = 2;
    made->devices = std::move(devices);
    made->open_device = [](const std::string& name) {
      return std::make_shared<kernels::cuda::device>(name.back() - '0');
    };
    made->gpus = net::nccl_channels();
    made->gpus.connect = [connect = made->gpus.connect](net::gpu_run run) {
      ++connected_by_nccl;
      return connect(std::move(run));
    };
    return made;
  }

  actors::host_system hosts{actors::host_options{}};
  actors::scoped_worker worker;
  net::address at{"127.0.0.1", 0, {}};
};

actors::pipeline_options recipe_for(const shape_of_run& shape) {
  auto options = options_for(shape, placement::processor);
  options.layers = {};
  options.optimizer = {};
  options.network = {};
  options.device = {};
  options.model = actors::model_recipe{.kind = "gpt",
                                       .vocabulary = vocabulary,
                                       .layers = 2,
                                       .width = 8,
                                       .heads = 2,
                                       .length = length,
                                       .dropout = 0.1};
  options.update = actors::optimizer_recipe{};
  return options;
}

outcome steps_of(actors::pipeline& line, const shape_of_run& shape) {
  tests::token_batches batches(vocabulary, length, 0.3);
  const std::vector<std::int64_t> samples(static_cast<std::size_t>(shape.micro_batches), 2);
  outcome result;
  for (int step = 0; step < steps; ++step) {
    const auto report = line.train(batches.make(static_cast<std::uint64_t>(step) + 1, samples));
    result.losses.push_back(report.loss);
    result.norms.push_back(report.gradient_norm);
  }
  result.bytes = stress::bytes_of(*line.state());
  return result;
}

/// On the GPUs of this process.
outcome train_here(const shape_of_run& shape) {
  auto options = recipe_for(shape);
  options.device = [](std::int32_t rank) { return device_of(placement::gpus, rank); };
  actors::pipeline line(std::move(options));
  return steps_of(line, shape);
}

std::shared_ptr<actors::crew> crew_of(const std::vector<const gpu_worker*>& workers, bool nccl) {
  std::vector<std::string> addresses;
  for (const auto* each : workers)
    addresses.push_back(net::to_string(each->at));
  auto crew = std::make_shared<actors::crew>(
    actors::crew_options{.workers = std::move(addresses), .nccl = nccl});
  for (const auto& each : crew->call(actors::call_for::work, std::chrono::seconds(10)))
    REQUIRE(each.problem == "");
  return crew;
}

/// In blocks on these workers.
outcome train_there(const shape_of_run& shape, const std::vector<const gpu_worker*>& workers,
                    bool nccl) {
  auto options = recipe_for(shape);
  options.crew = crew_of(workers, nccl);
  for (int stage = 0; stage < shape.stages; ++stage)
    options.placement.push_back(
      net::to_string(workers[static_cast<std::size_t>(stage) * workers.size() / shape.stages]->at));
  actors::pipeline line(std::move(options));
  return steps_of(line, shape);
}

} // namespace

TEST_CASE("GPUs of two workers train as those of one process do, over sockets and over NCCL") {
  const emulation::test::session run;
  const gpu_worker one({"cuda:0", "cuda:1"});
  const gpu_worker two({"cuda:2", "cuda:3"});
  std::uint64_t seed = 1;
  for (const auto& shape : {shape_of_run{"1f1b", 2, 4}, shape_of_run{"zb-h1", 4, 4},
                            shape_of_run{"v-half", 2, 4}, shape_of_run{"dualpipe", 2, 4}}) {
    const auto expected = train_here(shape);
    for (const bool nccl : {false, true})
      for (const auto which :
           {emulation::schedule::eager, emulation::schedule::random, emulation::schedule::lazy}) {
        CAPTURE(shape.schedule);
        CAPTURE(nccl);
        CAPTURE(static_cast<int>(which));
        emulation::set_schedule(which, seed++);
        const auto before = connected_by_nccl.load();
        check_equal(train_there(shape, {&one, &two}, nccl), expected);
        CHECK(connected_by_nccl == before + (nccl ? 2 : 0));
      }
  }
  CHECK(emulation::violations() == 0);
  CHECK(emulation::first_deadlock().empty());
}

TEST_CASE("workers with GPUs and one without train together") {
  const emulation::test::session run(emulation::schedule::random, 7);
  const gpu_worker one({"cuda:0"});
  const gpu_worker without({});
  const gpu_worker two({"cuda:1"});
  const shape_of_run shape{"1f1b", 3, 4};
  const auto by_sockets = train_there(shape, {&one, &without, &two}, false);
  check_close(by_sockets, train_here({"1f1b", 1, 4}));
  check_equal(train_there(shape, {&one, &without, &two}, true), by_sockets);
  CHECK(emulation::violations() == 0);
}

TEST_CASE("NCCL wants a GPU for each stage, and says so before anything starts") {
  const emulation::test::session run;
  const gpu_worker one({"cuda:0"});
  const gpu_worker two({"cuda:1"});
  CHECK_THROWS_WITH_AS(train_there({"1f1b", 4, 4}, {&one, &two}, true),
                       doctest::Contains("has 1 for 2 stages"), actors::pipeline_error);
  check_equal(train_there({"1f1b", 4, 4}, {&one, &two}, false), train_here({"1f1b", 2, 4}));
}

TEST_CASE("a worker whose GPU stage ends takes the run down with its name, and is free again") {
  const emulation::test::session run;
  const gpu_worker one({"cuda:0"});
  const gpu_worker two({"cuda:1"});
  const shape_of_run shape{"1f1b", 2, 4};
  {
    auto options = recipe_for(shape);
    options.crew = crew_of({&one, &two}, true);
    options.placement = {net::to_string(one.at), net::to_string(two.at)};
    actors::pipeline line(std::move(options));
    steps_of(line, shape);
    line.end_stage(1);
    CHECK_THROWS_WITH_AS(steps_of(line, shape), doctest::Contains("rank 1"),
                         actors::pipeline_error);
  }
  check_equal(train_there(shape, {&one, &two}, true), train_here(shape));
}
