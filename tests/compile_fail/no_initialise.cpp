// expect: this module has parameters, but no initialise: void initialise(stream&,
//         std::uint64_t seed)
#include <sluice/pipeline.hpp>

struct unborn {
  std::vector<sluice::nn::parameter*> parameters() { return {}; }
  sluice::tensor_list forward(sluice::stream&, const sluice::nn::micro_batch&,
                              sluice::tensor_list inputs, sluice::nn::activation&) {
    return inputs;
  }
  sluice::tensor_list backward(sluice::stream&, const sluice::nn::micro_batch&,
                               sluice::tensor_list gradients, sluice::nn::activation&) {
    return gradients;
  }
};

auto layer = sluice::nn::make_module("unborn", unborn{});
