#pragma once

#include <cstdint>
#include <span>

#include "kernels/ops/adamw.hpp"
#include "kernels/ops/cast.hpp"
#include "kernels/ops/dropout.hpp"
#include "kernels/ops/product.hpp"
#include "kernels/ops/sgd.hpp"
#include "kernels/tensor.hpp"

namespace sluice::kernels {

class stream;

namespace ops {

/// The operations of a device that is not the processor, as the functions of this room call them:
/// operands are checked, and results allocated, on that device. Each is documented, with its
/// shapes, where its function is.
///
/// Contract: a call enqueues and returns. What it reads may change once later work of the same
/// device is enqueued behind it; scratch comes from the stream's pool. Two runs give the same bits.
/// Thread: the stage's. Errors: std::runtime_error when the device fails; std::invalid_argument for
/// a type or size that the device has no kernel for.
class device_operations {
public:
  virtual ~device_operations() = default;

  virtual void add(const tensor& left, const tensor& right, tensor& sum) = 0;
  virtual void cast(const tensor& from, tensor& to) = 0;
  virtual void round_all(std::span<const rounding> all) = 0;

  virtual void gelu(const tensor& input, tensor& output) = 0;
  virtual void gelu_backward(const tensor& output_gradient, const tensor& input,
                             tensor& gradient) = 0;

  struct affine {
    const tensor& weight;
    const tensor& bias;
  };
  virtual void layer_norm(const tensor& input, affine with, tensor& output, tensor& statistics) = 0;
  virtual void layer_norm_again(const tensor& input, const tensor& statistics, affine with,
                                tensor& output) = 0;
  struct layer_norm_operands {
    const tensor& output_gradient;
    const tensor& input;
    const tensor& statistics;
    const tensor& weight;
  };
  virtual void layer_norm_backward(stream& on, const layer_norm_operands& from, tensor& input,
                                   tensor& affine) = 0;

  virtual void product(stream& on, const const_matrix& a, const const_matrix& b, const matrix& c,
                       write_mode mode, const tensor& bias) = 0;
  /// linear_gelu() and linear_gelu_input_gradient(), results allocated. False, and nothing done,
  /// where the device's library does not have them for these shapes.
  struct linear_operands {
    const tensor& input;
    const tensor& weight;
    const tensor& bias;
  };
  virtual bool product_gelu(stream& on, const linear_operands& from, tensor& inner,
                            tensor& output) = 0;
  virtual bool product_gelu_backward(stream& on, const tensor& output_gradient,
                                     const tensor& weight, const tensor& inner,
                                     tensor& gradient) = 0;
  /// sums += the sum of the rows.
  virtual void add_rows(stream& on, const tensor& rows, tensor& sums) = 0;

  virtual void embedding(const tensor& ids, const tensor& tokens, const tensor& positions,
                         tensor& output) = 0;
  virtual void embedding_backward(const tensor& output_gradient, const tensor& ids,
                                  tensor& tokens_gradient, tensor& positions_gradient) = 0;

  virtual void dropout(const tensor& values, tensor& result, std::int64_t samples,
                       const dropout_mask& mask) = 0;

  virtual void attention(const tensor& packed, const dropout_mask& mask, tensor& output,
                         tensor& log_sums) = 0;
  struct attention_operands {
    const tensor& output_gradient;
    const tensor& packed;
    const tensor& log_sums;
  };
  virtual void attention_backward(stream& on, const attention_operands& from,
                                  const dropout_mask& mask, tensor& gradient) = 0;

  virtual void cross_entropy(stream& on, tensor& logits, const tensor& targets, tensor& loss) = 0;
  virtual void cross_entropy_backward(tensor& probabilities, const tensor& targets,
                                      double loss_scale) = 0;

  virtual void adamw(std::span<const adamw_operand> all, const adamw_settings& settings) = 0;
  virtual void sgd(tensor& value, const tensor& gradient, tensor& velocity,
                   const sgd_settings& settings) = 0;

  /// Of tensors of one type, into `sums`, float64.
  virtual void sums_of_squares(stream& on, std::span<const tensor> values, tensor& sums) = 0;
};

} // namespace ops
} // namespace sluice::kernels
