// expect: this module has no backward: tensor_list backward(stream&, const micro_batch&,
//         tensor_list output_gradients, activation& saved)
#include <sluice/pipeline.hpp>

struct forward_only {
  sluice::tensor_list forward(sluice::stream&, const sluice::nn::micro_batch&,
                              sluice::tensor_list inputs, sluice::nn::activation&) {
    return inputs;
  }
};

auto layer = sluice::nn::make_module("forward only", forward_only{});
