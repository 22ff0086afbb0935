// Losses, logits, gradients and updates against PyTorch's for the same weights; the files beside
// golden/make_golden.py hold both.

#include <cmath>

#include "kernels/nn/gpt.hpp"
#include "kernels/nn/mlp.hpp"
#include "kernels/nn/optimizer.hpp"
#include "kernels/nn/sequential.hpp"
#include "kernels/nn/tie.hpp"
#include "kernels/ops/cross_entropy.hpp"
#include "kernels/ops/sum_of_squares.hpp"
#include "kernels/safetensors.hpp"
#include "tests/kernels/fixtures.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

const std::string folder = SLUICE_GOLDEN_FOLDER;

tensor converted(stream& on, const tensor& from, dtype type) {
  if (from.type() == dtype::int32 || from.type() == type)
    return from;
  auto made = on.allocate(type, from.shape());
  for (std::int64_t i = 0; i < from.elements(); ++i)
    if (type == dtype::float64)
      made.data<double>()[i] = element(from, i);
    else
      made.data<float>()[i] = static_cast<float>(element(from, i));
  return made;
}

// One model with the file's weights.
class golden_run {
public:
  golden_run(const safetensors_file& file, std::vector<nn::module_ptr> layers, dtype type)
    : file_(file),
      type_(type),
      model_("model", std::move(layers)) {
    model_.initialise(on_, 1);
    for (auto& each : model_.parameters()) {
      all_.push_back(&each);
      each.value = converted(on_, file.read(on_, "weight/" + each.name), type);
    }
    nn::tie_parameters(all_);
    inputs_ = list(converted(on_, file.read(on_, "inputs"), type), file.read(on_, "targets"));
  }

  void check_first_step(double tolerance) {
    nn::micro_batch which;
    which.purpose = nn::purpose::predict;
    auto save = model_.make_activation();
    const auto logits = model_.forward(on_, which, inputs_, save);
    CHECK(close(values(logits.front()), expected("logits"), tolerance, tolerance));
    const double loss = gradients();
    CHECK(loss == doctest::Approx(expected("loss")[0]).epsilon(tolerance));
    for (const auto* each : all_)
      if (each->accumulator == 0)
        CHECK(
          close(values(each->gradient), expected("gradient/" + each->name), tolerance, tolerance));
  }

  void check_updates(double tolerance) {
    const auto adamw = nn::make_adamw({0.9, 0.95, 1e-8, 0.1});
    std::vector<std::vector<tensor>> states;
    for (const auto* each : all_)
      states.push_back(adamw->make_state(on_, *each));
    for (std::uint64_t step = 0; step < 3; ++step) {
      gradients();
      double squares = 0;
      for (const auto* each : all_)
        if (each->accumulator == 0)
          squares += ops::sum_of_squares(on_, each->gradient);
      const double norm = std::sqrt(squares);
      CHECK(norm
            == doctest::Approx(expected("norm/" + std::to_string(step))[0]).epsilon(tolerance));
      for (std::size_t i = 0; i < all_.size(); ++i)
        if (all_[i]->accumulator == 0)
          adamw->step(on_, *all_[i], states[i], 0.01, step + 1, std::min(1.0, 0.5 / (norm + 1e-6)));
    }
    for (const auto* each : all_)
      // A key's bias moves no softmax: its gradient is rounding alone, which AdamW makes large.
      if (type_ == dtype::float64 || !each->name.ends_with("c_attn.bias"))
        CHECK(close(values(each->value), expected("updated/" + each->name), tolerance, tolerance));
  }

private:
  double gradients() {
    nn::zero_gradients(all_);
    nn::micro_batch which;
    which.loss_scale = 1.0 / static_cast<double>(ops::valid_targets(inputs_[1]));
    auto save = model_.make_activation();
    const auto loss = model_.forward(on_, which, inputs_, save);
    model_.backward_input(on_, which, {}, save);
    model_.backward_weight(on_, which, save);
    nn::add_tied_gradients(on_, all_);
    return loss.front().data<double>()[0];
  }

  std::vector<double> expected(const std::string& name) { return values(file_.read(on_, name)); }

  const safetensors_file& file_;
  dtype type_;
  stream on_ = make_stream();
  nn::sequential model_;
  std::vector<nn::parameter*> all_;
  tensor_list inputs_;
};

std::int64_t number(const safetensors_file& file, const std::string& key) {
  return std::stoll(file.metadata().at(key));
}

} // namespace

TEST_CASE("a GPT's loss, logits, gradients and updates are PyTorch's") {
  const safetensors_file file(folder + "/gpt.safetensors");
  for (const auto type : {dtype::float64, dtype::float32}) {
    const double tolerance = type == dtype::float64 ? 1e-11 : 2e-5;
    golden_run run(
      file,
      nn::make_gpt({number(file, "vocabulary"), number(file, "layers"), number(file, "width"),
                    number(file, "heads"), number(file, "length"), 0},
                   type),
      type);
    run.check_first_step(tolerance);
    // AdamW's first steps divide small gradients by their own size, and their errors with them.
    run.check_updates(type == dtype::float64 ? 1e-8 : 2e-3);
  }
}

TEST_CASE("an MLP's loss, logits, gradients and updates are PyTorch's") {
  const safetensors_file file(folder + "/mlp.safetensors");
  for (const auto type : {dtype::float64, dtype::float32}) {
    const double tolerance = type == dtype::float64 ? 1e-11 : 2e-5;
    golden_run run(file,
                   nn::make_mlp({number(file, "features"), number(file, "width"),
                                 number(file, "layers"), number(file, "classes"), 0},
                                type),
                   type);
    run.check_first_step(tolerance);
    run.check_updates(type == dtype::float64 ? 1e-8 : 2e-3);
  }
}
