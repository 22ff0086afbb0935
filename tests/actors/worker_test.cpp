#include "actors/worker.hpp"

#include <doctest/doctest.h>

#include <vector>

#include <fmt/ranges.h>

#include "actors/run_edges.hpp"
#include "tests/support/stepped_system.hpp"

// A worker, message by message: what it grants, what it refuses, and when it is free again.

using namespace sluice;
using namespace sluice::actors;

namespace {

stage_recipe small_recipe() {
  return {.plan = plan::make_plan("1f1b", {.stages = 2, .micro_batches = 3}),
          .model = {.kind = "mlp", .vocabulary = 4, .layers = 3, .width = 8, .length = 4},
          .cut = {2, 2}};
}

/// A worker in a system that the test steps, and owners that ask it.
struct desk {
  desk() {
    auto config = std::make_shared<worker_config>();
    config->name = "here";
    config->stages = 2;
    config->detached_stages = false;
    config->log = [this](const std::string& line) { logged.push_back(line); };
    worker = spawn_worker(system.system(), config, false);
    system.scheduler().run();
  }
  ~desk() {
    system.let_run();
    caf::scoped_actor self{system.system()};
    self->send_exit(worker, caf::exit_reason::user_shutdown);
  }

  caf::actor owner() {
    owners.push_back(system.system().spawn(
      [](caf::event_based_actor*) -> caf::behavior { return {[](std::int32_t) {}}; }));
    return owners.back();
  }

  lease_request request(std::uint8_t run) {
    return {.token = std::vector<std::uint8_t>(16, run),
            .owner = owner(),
            .holder = "somebody",
            .recipe = small_recipe(),
            .ranks = {1}};
  }

  std::string refusal(lease_request asked) {
    try {
      system.ask<lease_grant>(worker, std::move(asked));
    } catch (const std::runtime_error& why) {
      return why.what();
    }
    return "";
  }

  std::string holder() { return system.ask<worker_offer>(worker, worker_hello{}).holder; }

  tests::stepped_system system;
  std::vector<std::string> logged;
  std::vector<caf::actor> owners; ///< an actor that nobody knows ends
  caf::actor worker;
};

} // namespace

TEST_CASE("A worker says who it is and that it is free") {
  desk at;
  const auto offer = at.system.ask<worker_offer>(at.worker, worker_hello{});
  CHECK(offer.name == "here");
  CHECK(offer.stages == 2);
  CHECK(offer.holder == "");
  CHECK(offer.arithmetic != "");
}

TEST_CASE("Another version is refused with both numbers") {
  desk at;
  CHECK_THROWS_WITH_AS(at.system.ask<worker_offer>(at.worker, worker_hello{99}),
                       doctest::Contains("speaks version 2 of the control protocol, not 99"),
                       std::runtime_error);
}

TEST_CASE("A lease is granted once, and others hear who has it") {
  desk at;
  const auto grant = at.system.ask<lease_grant>(at.worker, at.request(1));
  CHECK(grant.busy == "");
  CHECK(grant.tensor_port != 0);
  const auto late = at.system.ask<lease_grant>(at.worker, at.request(2));
  INFO(fmt::format("{}", fmt::join(at.logged, "; ")));
  CHECK(late.busy == "it is leased to somebody");
  CHECK(late.tensor_port == 0);
  CHECK(at.holder() == "somebody");
}

TEST_CASE("A lease that its owner ends leaves the worker free") {
  desk at;
  at.system.ask<lease_grant>(at.worker, at.request(1));
  at.system.ask<lease_ended>(at.worker, end_lease{std::vector<std::uint8_t>(16, 2)});
  CHECK_MESSAGE(at.holder() == "somebody", "another run's token ends nothing");
  at.system.ask<lease_ended>(at.worker, end_lease{std::vector<std::uint8_t>(16, 1)});
  CHECK(at.holder() == "");
  CHECK(at.system.ask<lease_grant>(at.worker, at.request(2)).busy == "");
}

TEST_CASE("A lease ends with its owner") {
  desk at;
  auto asked = at.request(1);
  at.system.ask<lease_grant>(at.worker, asked);
  caf::anon_send_exit(asked.owner, caf::exit_reason::kill);
  at.system.scheduler().run();
  CHECK(at.holder() == "");
  CHECK(at.logged.back().find("its owner is gone") != std::string::npos);
}

TEST_CASE("An owner that is gone before its lease is noticed at once") {
  desk at;
  auto asked = at.request(1);
  caf::anon_send_exit(asked.owner, caf::exit_reason::kill);
  at.system.scheduler().run();
  at.system.ask<lease_grant>(at.worker, asked);
  at.system.scheduler().run();
  CHECK(at.holder() == "");
}

TEST_CASE("A request that makes no sense is refused with the reason, and the worker stays free") {
  desk at;
  auto asked = at.request(1);
  const char* reason = "";
  SUBCASE("a short token") {
    asked.token.resize(3);
    reason = "a token of 3 bytes, not 16";
  }
  SUBCASE("no owner") {
    asked.owner = {};
    reason = "the request has no owner";
  }
  SUBCASE("no rank") {
    asked.ranks = {};
    reason = "at least one, each once, is needed";
  }
  SUBCASE("a rank twice") {
    asked.ranks = {1, 1};
    reason = "at least one, each once, is needed";
  }
  SUBCASE("a rank that the plan does not have") {
    asked.ranks = {2};
    reason = "asked to host the ranks [2] of a plan for 2";
  }
  SUBCASE("more stages than it offers") {
    asked.recipe.plan = plan::make_plan("1f1b", {.stages = 3, .micro_batches = 3});
    asked.recipe.cut = {1, 1, 2};
    asked.ranks = {0, 1, 2};
    reason = "asked for 3 stages, but it hosts 2 at most";
  }
  SUBCASE("a model that nobody knows") {
    asked.recipe.model.kind = "/etc/passwd";
    reason = "there is no model '/etc/passwd'";
  }
  SUBCASE("a precision that nobody knows") {
    asked.recipe.model.precision = "half";
    reason = "there is no precision 'half'";
  }
  SUBCASE("a model beyond all bounds") {
    asked.recipe.model.layers = std::int64_t{1} << 40;
    reason = "the number of layers is 1099511627776";
  }
  SUBCASE("a cut that does not add up") {
    asked.recipe.cut = {2, 7};
    reason = "the cut gives 2 parts and 9 layers";
  }
  SUBCASE("a plan with a chunk out of range") {
    asked.recipe.plan.chunks[1].rank = 77;
    reason = "the plan is none: chunk 1 is on rank 77, of 2";
  }
  SUBCASE("a plan whose route leads nowhere") {
    asked.recipe.plan.routes[0][1] = -5;
    reason = "the plan is none";
  }
  SUBCASE("a plan that cannot finish") {
    asked.recipe.plan.by_rank[0].credits = 1;
    asked.recipe.plan.by_rank[0].warm_up = 2;
    asked.recipe.plan.by_rank[0].stand_in = false;
    asked.recipe.plan.by_rank[0].order.clear();
    reason = "the plan cannot run";
  }
  SUBCASE("an optimizer that nobody knows") {
    asked.recipe.optimizer.kind = "lion";
    reason = "there is no optimizer 'lion'";
  }
  SUBCASE("no thread") {
    asked.recipe.threads = 0;
    reason = "the number of threads is 0";
  }
  CHECK_MESSAGE(at.refusal(asked).find(reason) != std::string::npos, at.refusal(asked));
  CHECK(at.holder() == "");
}

TEST_CASE("A run is started only by who has the lease") {
  desk at;
  at.system.ask<lease_grant>(at.worker, at.request(1));
  CHECK_THROWS_WITH_AS(
    at.system.ask<run_started>(at.worker, start_run{std::vector<std::uint8_t>(16, 2), {}, 100}),
    doctest::Contains("it is not leased to this run"), std::runtime_error);
  CHECK_THROWS_WITH_AS(
    at.system.ask<run_started>(at.worker, start_run{std::vector<std::uint8_t>(16, 1), {}, 100}),
    doctest::Contains("no address is known for rank"), std::runtime_error);
}

TEST_CASE("An order of GPUs that makes no sense is refused, and so is one where there are none") {
  desk at;
  auto asked = at.request(1);
  asked.make_gpu_id = true;
  CHECK(at.refusal(asked).find("it has no GPUs") != std::string::npos);
  at.system.ask<lease_grant>(at.worker, at.request(1));
  const auto start = [&](gpu_order gpus) {
    at.system.ask<run_started>(
      at.worker, start_run{std::vector<std::uint8_t>(16, 1), {{0, "127.0.0.1:1"}}, 100, gpus});
  };
  CHECK_THROWS_WITH_AS(start({.ranks = {1, 0}}), doctest::Contains("the ranks [1, 0] on GPUs"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(start({.ranks = {0, 2}}), doctest::Contains("of a plan for 2"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(start({.ranks = {0, 1}}), doctest::Contains("without a sequencer"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(start({.ranks = {0, 1}, .sequencer = at.worker}),
                       doctest::Contains("without the identifier"), std::runtime_error);
}

TEST_CASE("The edges of a run have the slots that its credits allow") {
  const auto recipe = small_recipe();
  const auto edges = run_edges(recipe.plan, lay_out(recipe).shared);
  std::vector<std::string> lines;
  for (const auto& each : edges)
    lines.push_back(net::to_string(each.edge) + ": " + std::to_string(each.slots));
  CHECK(lines
        == std::vector<std::string>{
          "the activations for chunk 1, from rank 0 to rank 1: 2",
          "the gradients for chunk 0, from rank 1 to rank 0: 2",
          "the inputs for chunk 0, from rank 2 to rank 0: 4",
          "the targets for chunk 1, from rank 2 to rank 1: 4",
          "the outputs for chunk 1, from rank 1 to rank 2: 4",
          "the states from rank 0 to rank 2: 4",
          "the states from rank 1 to rank 2: 4",
          "the states from rank 2 to rank 0: 4",
          "the states from rank 2 to rank 1: 4",
        });
}
