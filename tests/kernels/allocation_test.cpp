// After the first step the data path asks nobody for memory: neither for tensors nor for scratch.

#include <memory>

#include "kernels/nn/gpt.hpp"
#include "kernels/nn/mlp.hpp"
#include "kernels/nn/optimizer.hpp"
#include "kernels/nn/recomputed.hpp"
#include "kernels/nn/sequential.hpp"
#include "kernels/nn/tie.hpp"
#include "kernels/ops/product.hpp"
#include "kernels/ops/sum_of_squares.hpp"
#include "tests/kernels/fixtures.hpp"
#include "tests/support/allocation_watch.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;
using sluice::test::allocation_watch;

namespace {

// Steps of two micro-batches in flight, the update included.
class stepper {
public:
  stepper(std::vector<nn::module_ptr> layers, tensor_list inputs, stream& on)
    : on_(on),
      model_("model", std::move(layers)),
      inputs_(std::move(inputs)) {
    model_.initialise(on, 1);
    for (auto& each : model_.parameters())
      all_.push_back(&each);
    nn::tie_parameters(all_);
    for (const auto* each : all_)
      states_.push_back(adamw_->make_state(on, *each));
    for (auto& save : saves_)
      save = model_.make_activation();
  }

  void step() {
    nn::micro_batch which;
    which.step = steps_++;
    for (auto& save : saves_)
      model_.forward(on_, which, inputs_, save);
    for (auto& save : saves_)
      model_.backward_input(on_, which, {}, save);
    for (auto& save : saves_)
      model_.backward_weight(on_, which, save);
    nn::add_tied_gradients(on_, all_);
    double squares = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      squares += ops::sum_of_squares(on_, all_[i]->gradient);
      adamw_->step(on_, *all_[i], states_[i], 1e-3, steps_, 1.0);
    }
    nn::zero_gradients(all_);
    CHECK(std::isfinite(squares));
  }

private:
  stream& on_;
  nn::sequential model_;
  tensor_list inputs_;
  std::unique_ptr<nn::optimizer> adamw_ = nn::make_adamw();
  std::vector<nn::parameter*> all_;
  std::vector<std::vector<tensor>> states_;
  std::array<nn::activation, 2> saves_;
  std::uint64_t steps_ = 0;
};

std::vector<nn::module_ptr> maybe_recomputed(std::vector<nn::module_ptr> layers, bool recompute) {
  if (recompute)
    for (auto& layer : layers)
      layer = std::make_unique<nn::recomputed>(std::move(layer));
  return layers;
}

bool watched() {
  if (!allocation_watch::works())
    MESSAGE("SKIPPED: a sanitizer has the allocator, nothing is counted");
  return allocation_watch::works();
}

// oneDNN 2 has products without allocation for AVX-512 only.
bool products_allocate_nothing() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512bw") != 0)
    return true;
#endif
  MESSAGE("SKIPPED: on this processor oneDNN allocates the room it packs operands in");
  return false;
}

void check_second_step(dtype type, bool recompute, bool gpt) {
  stream on(make_cpu_device());
  const auto ids = random_ids(on, {2, 33}, 1, 31);
  auto model = gpt
               ? stepper(maybe_recomputed(nn::make_gpt({31, 2, 24, 3, 33, 0.1}, type), recompute),
                         list(ids, ids), on)
               : stepper(maybe_recomputed(nn::make_mlp({7, 33, 3, 31, 0.1}, type), recompute),
                         list(random_tensor(on, type, {66, 7}, 1), ids.reshaped({66})), on);
  model.step();
  const auto taken = on.pool().usage().device_allocations;
  const allocation_watch watch;
  model.step();
  const auto counts = watch.counts();
  CHECK(on.pool().usage().device_allocations == taken);
  if (!watched())
    return;
  CHECK(counts.ours == 0);
  if (products_allocate_nothing())
    CHECK(counts.largest_bytes <= 4096);
  if (type == dtype::float64)
    CHECK(counts.products == 0);
}

} // namespace

TEST_CASE("the watch sees what this thread allocates, and how much") {
  if (!watched())
    return;
  stream on(make_cpu_device());
  const allocation_watch watch;
  const auto small = std::make_unique<int>(1);
  const std::vector<char> large(5000);
  const auto aligned = on.zeros(dtype::float32, {64});
  CHECK(watch.counts().ours >= 3);
  CHECK(watch.counts().largest_bytes >= 5000);
  CHECK(watch.counts().products == 0);
}

TEST_CASE("the second step of a model allocates nothing") {
  for (const auto type : {dtype::float32, dtype::float64})
    for (const bool recompute : {false, true})
      for (const bool gpt : {true, false}) {
        INFO(name(type), " recompute ", recompute, " gpt ", gpt);
        check_second_step(type, recompute, gpt);
      }
}

TEST_CASE("a prepared product allocates nothing but oneDNN's few small notes") {
  stream on(make_cpu_device());
  const auto a = random_tensor(on, dtype::float32, {129, 257}, 1);
  const auto b = random_tensor(on, dtype::float32, {257, 65}, 2);
  auto c = on.allocate(dtype::float32, {129, 65});
  const auto run = [&] {
    ops::product(on, ops::matrix_of(a), ops::matrix_of(b), ops::matrix_of(c),
                 ops::write_mode::accumulate);
  };
  run();
  const allocation_watch watch;
  run();
  const auto counts = watch.counts();
  if (!watched())
    return;
  CHECK(counts.ours == 0);
  if (!products_allocate_nothing())
    return;
  CHECK(counts.products <= 10);
  CHECK(counts.largest_bytes <= 4096);
  MESSAGE("small allocations inside a product: ", counts.products, ", the largest of ",
          counts.largest_bytes, " bytes");
}
