#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/model_layout.hpp"
#include "actors/model_recipe.hpp"
#include "actors/plan/plan.hpp"
#include "kernels/nn/optimizer.hpp"
#include "kernels/nn/stage_module.hpp"

namespace sluice::actors {

/// All that the stages of a run are made from, in whatever process: data only, nothing that a
/// process would have to look up, open or run for somebody else.
struct stage_recipe {
  plan::plan plan = {};
  model_recipe model = {};
  optimizer_recipe optimizer = {};
  std::vector<std::uint64_t> cut = {}; ///< layers of each part
  bool recompute = false;
  std::vector<std::int32_t> recompute_ranks = {}; ///< if not empty: only the chunks of these
  std::int32_t threads = 1;                       ///< of each stage's matrix products
  std::uint64_t memory_bytes = 0;                 ///< limit of each stage; 0: none
  kernels::nn::model_values values = {};          ///< names, for layers with ports
};

/// Who makes the layers of models beside gpt and mlp, by kind. Each process of a run has its own: a
/// recipe only names the kind.
using model_makers =
  std::map<std::string, std::function<std::vector<kernels::nn::module_ptr>(const model_recipe&)>>;

/// Errors: std::invalid_argument for a kind that nobody knows, or sizes that no network has.
std::vector<kernels::nn::module_ptr> make_layers(const model_recipe& of,
                                                 const model_makers& more = {});
std::shared_ptr<const kernels::nn::optimizer> make_optimizer(const optimizer_recipe& of);

/// What a recipe that came from outside must be, before anything is built from it: sizes within
/// bounds, a plan that can finish, a cut that adds up.
/// Errors: std::invalid_argument that says what is wrong.
void check_recipe(const stage_recipe& of);

/// The layout of a recipe that check_recipe() has passed.
model_layout lay_out(const stage_recipe& of, const model_makers& more = {});

} // namespace sluice::actors
