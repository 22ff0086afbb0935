#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>

#include "kernels/ops/device_operations.hpp"

namespace sluice::kernels::cuda {

/// The matrix products of one device, by cuBLASLt (ops/product_cublas.cpp).
class product_plans;
struct product_plan;

/// Is told, once for each, what was chosen and might be thought to be otherwise: "no fused GELU
/// ...".
using remark = std::function<void(const std::string&)>;

/// The operations on one CUDA stream. Each member is defined in its operation's .cu file.
class operations final : public ops::device_operations {
public:
  operations(cudaStream_t on, remark tell);
  ~operations() override;

  void add(const tensor& left, const tensor& right, tensor& sum) override;
  void cast(const tensor& from, tensor& to) override;
  void round_all(std::span<const ops::rounding> all) override;
  void gelu(const tensor& input, tensor& output) override;
  void gelu_backward(const tensor& output_gradient, const tensor& input, tensor& gradient) override;
  void layer_norm(const tensor& input, affine with, tensor& output, tensor& statistics) override;
  void layer_norm_again(const tensor& input, const tensor& statistics, affine with,
                        tensor& output) override;
  void layer_norm_backward(stream& on, const layer_norm_operands& from, tensor& input,
                           tensor& affine) override;
  void product(stream& on, const ops::const_matrix& a, const ops::const_matrix& b,
               const ops::matrix& c, ops::write_mode mode, const tensor& bias) override;
  bool product_gelu(stream& on, const linear_operands& from, tensor& inner,
                    tensor& output) override;
  bool product_gelu_backward(stream& on, const tensor& output_gradient, const tensor& weight,
                             const tensor& inner, tensor& gradient) override;
  void add_rows(stream& on, const tensor& rows, tensor& sums) override;
  void embedding(const tensor& ids, const tensor& tokens, const tensor& positions,
                 tensor& output) override;
  void embedding_backward(const tensor& output_gradient, const tensor& ids, tensor& tokens_gradient,
                          tensor& positions_gradient) override;
  void dropout(const tensor& values, tensor& result, std::int64_t samples,
               const ops::dropout_mask& mask) override;
  void attention(const tensor& packed, const ops::dropout_mask& mask, tensor& output,
                 tensor& log_sums) override;
  void attention_backward(stream& on, const attention_operands& from, const ops::dropout_mask& mask,
                          tensor& gradient) override;
  void cross_entropy(stream& on, tensor& logits, const tensor& targets, tensor& loss) override;
  void cross_entropy_backward(tensor& probabilities, const tensor& targets,
                              double loss_scale) override;
  void adamw(std::span<const ops::adamw_operand> all, const ops::adamw_settings& settings) override;
  void sgd(tensor& value, const tensor& gradient, tensor& velocity,
           const ops::sgd_settings& settings) override;
  void sums_of_squares(stream& on, std::span<const tensor> values, tensor& sums) override;

private:
  void run(stream& on, const product_plan& plan, const ops::const_matrix& a,
           const ops::const_matrix& b, const ops::matrix& c, ops::write_mode mode);

  cudaStream_t stream_;
  std::unique_ptr<product_plans> products_;
};

} // namespace sluice::kernels::cuda
