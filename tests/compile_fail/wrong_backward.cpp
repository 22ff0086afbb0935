// expect: this module's backward must be: tensor_list backward(stream&, const
//         micro_batch&, tensor_list output_gradients, activation& saved)
#include <sluice/pipeline.hpp>

struct one_gradient {
  sluice::tensor_list forward(sluice::stream&, const sluice::nn::micro_batch&,
                              sluice::tensor_list inputs, sluice::nn::activation&) {
    return inputs;
  }
  sluice::tensor backward(sluice::stream&, sluice::tensor gradient) { return gradient; }
};

auto layer = sluice::nn::make_module("one gradient", one_gradient{});
