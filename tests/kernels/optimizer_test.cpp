#include "kernels/nn/optimizer.hpp"

#include "kernels/nn/lr_schedule.hpp"
#include "tests/kernels/fixtures.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

nn::parameter make_parameter(stream& on, dtype type, bool decays) {
  return {"weight", random_tensor(on, type, {5, 7}, 1), random_tensor(on, type, {5, 7}, 2), decays,
          0};
}

} // namespace

TEST_CASE("AdamW follows its closed form, with clipping and decay by group") {
  auto on = make_stream();
  bool decays = false;
  SUBCASE("a bias") {}
  SUBCASE("a matrix") {
    decays = true;
  }
  for (const auto type : {dtype::float32, dtype::float64}) {
    auto what = make_parameter(on, type, decays);
    const auto adamw = nn::make_adamw({0.9, 0.95, 1e-8, 0.1});
    auto state = adamw->make_state(on, what);
    REQUIRE(state.size() == 2);
    CHECK(adamw->state_names()[0] == "exp_avg");
    CHECK(adamw->state_names()[1] == "exp_avg_sq");
    auto x = values(what.value);
    std::vector<double> m(x.size());
    std::vector<double> v(x.size());
    for (std::uint64_t step = 1; step <= 4; ++step) {
      const double rate = 0.01 * static_cast<double>(step);
      const double scale = 1.0 / static_cast<double>(step);
      what.gradient = random_tensor(on, type, {5, 7}, static_cast<unsigned>(step));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double g = element(what.gradient, static_cast<std::int64_t>(i)) * scale;
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.95 * v[i] + 0.05 * g * g;
        const double n = static_cast<double>(step);
        const double m_hat = m[i] / (1 - std::pow(0.9, n));
        const double v_hat = v[i] / (1 - std::pow(0.95, n));
        x[i] -= rate * (decays ? 0.1 : 0) * x[i];
        x[i] -= rate * m_hat / (std::sqrt(v_hat) + 1e-8);
      }
      adamw->step(on, what, state, rate, step, scale);
    }
    const double tolerance = type == dtype::float64 ? 1e-13 : 2e-6;
    CHECK(close(values(what.value), x, tolerance, tolerance));
    CHECK(close(values(state[0]), m, tolerance, tolerance));
    CHECK(close(values(state[1]), v, tolerance, tolerance));
  }
}

TEST_CASE("SGD follows its closed form, with and without momentum") {
  auto on = make_stream();
  double momentum = 0;
  SUBCASE("plain") {}
  SUBCASE("momentum") {
    momentum = 0.9;
  }
  auto what = make_parameter(on, dtype::float64, true);
  const auto sgd = nn::make_sgd({momentum, 0.01});
  auto state = sgd->make_state(on, what);
  CHECK(state.size() == (momentum > 0 ? 1 : 0));
  auto x = values(what.value);
  std::vector<double> velocity(x.size());
  for (std::uint64_t step = 1; step <= 3; ++step) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double g = element(what.gradient, static_cast<std::int64_t>(i)) * 0.5 + 0.01 * x[i];
      velocity[i] = momentum * velocity[i] + g;
      x[i] -= 0.1 * velocity[i];
    }
    sgd->step(on, what, state, 0.1, step, 0.5);
  }
  CHECK(close(values(what.value), x, 1e-14, 1e-14));
}

TEST_CASE("an optimizer's options are checked") {
  CHECK_THROWS_AS(nn::make_adamw({1.0, 0.95, 1e-8, 0.1}), std::invalid_argument);
  CHECK_THROWS_AS(nn::make_adamw({0.9, 0.95, 1e-8, -0.1}), std::invalid_argument);
  CHECK_THROWS_AS(nn::make_sgd({1.5, 0}), std::invalid_argument);
}

TEST_CASE("the learning rate warms up linearly and falls to the floor as a cosine") {
  nn::lr_schedule rate;
  rate.peak = 1;
  rate.warm_up_steps = 4;
  CHECK(rate.at(0) == 0.25);
  CHECK(rate.at(3) == 1);
  CHECK(rate.at(1000) == 1);
  rate.after_warm_up = nn::lr_schedule::shape::cosine;
  rate.floor = 0.1;
  rate.total_steps = 14;
  CHECK(rate.at(4) == 1);
  CHECK(rate.at(9) == doctest::Approx(0.55));
  CHECK(rate.at(14) == 0.1);
  CHECK(rate.at(1000) == 0.1);
}
