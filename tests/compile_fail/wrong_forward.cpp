// expect: this module's forward must be: tensor_list forward(stream&, const micro_batch&,
//         tensor_list inputs, activation& save)
#include <sluice/pipeline.hpp>

struct one_tensor {
  sluice::tensor forward(sluice::stream&, sluice::tensor input) { return input; }
  sluice::tensor backward(sluice::stream&, sluice::tensor gradient) { return gradient; }
};

auto layer = sluice::nn::make_module("one tensor", one_tensor{});
