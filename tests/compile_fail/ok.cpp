// expect: compiles
#include <sluice/pipeline.hpp>

struct whole {
  sluice::tensor_list forward(sluice::stream&, const sluice::nn::micro_batch&,
                              sluice::tensor_list inputs, sluice::nn::activation&) {
    return inputs;
  }
  sluice::tensor_list backward(sluice::stream&, const sluice::nn::micro_batch&,
                               sluice::tensor_list gradients, sluice::nn::activation&) {
    return gradients;
  }
};
static_assert(sluice::nn::module_like<whole>);

auto layer = sluice::nn::make_module("whole", whole{});
