#include <cublasLt.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/ops/require.hpp"
#include "kernels/stream.hpp"

namespace sluice::kernels::cuda {

namespace {

constexpr std::size_t most_workspace_bytes = std::size_t{32} << 20;

void check_blas(cublasStatus_t status, const char* doing) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string("product: ") + doing + ": "
                             + cublasLtGetStatusString(status));
}

/// An object of cuBLASLt, destroyed by its own function.
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
class owned {
public:
  owned() = default;
  ~owned() {
    if (handle_ != nullptr)
      Destroy(handle_);
  }
  owned(owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  owned& operator=(owned&&) = delete;

  Handle* out() { return &handle_; }
  Handle get() const { return handle_; }

private:
  Handle handle_ = nullptr;
};

using library = owned<cublasLtHandle_t, cublasLtDestroy>;
using description = owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using layout = owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using preference = owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// How an operand lies in memory. cuBLASLt reads columns first, so what it sees is the transpose.
struct operand_key {
  std::int64_t rows, columns, leading;
  bool transposed;
  std::uint32_t alignment_bytes;
  auto operator<=>(const operand_key&) const = default;
};

/// What happens to a product before it is stored.
enum class epilogue : std::uint8_t { none, bias, gelu, gelu_backward };

bool with_gelu(epilogue after) {
  return after == epilogue::gelu || after == epilogue::gelu_backward;
}

cublasLtEpilogue_t in_cublas(epilogue after) {
  switch (after) {
  case epilogue::bias:
    return CUBLASLT_EPILOGUE_BIAS;
  case epilogue::gelu:
    return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  case epilogue::gelu_backward:
    return CUBLASLT_EPILOGUE_DGELU;
  case epilogue::none:
    break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// cuBLASLt keeps what goes into a GELU in rows of a multiple of so many elements.
constexpr std::int64_t inner_columns = 8;

/// What an epilogue reads or writes beside the product.
struct epilogue_pointers {
  const void* bias = nullptr;
  const void* inner = nullptr; ///< what goes into a GELU; lies as the result does, without gaps
};

struct product_key {
  operand_key a, b, c;
  dtype type; ///< of the operands
  dtype result;
  epilogue after;
  std::uint32_t bias_alignment_bytes = 0;
  std::uint32_t inner_alignment_bytes = 0;
  auto operator<=>(const product_key&) const = default;
};

/// The largest power of two up to 256 that divides the address.
std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(256, address & (~address + 1)));
}

operand_key key_of(const ops::const_matrix& of) {
  const auto alignment = alignment_of(of.first);
  if (of.column_stride == 1)
    return {of.rows, of.columns, std::max<std::int64_t>(of.row_stride, of.columns), false,
            alignment};
  return {of.columns, of.rows, std::max<std::int64_t>(of.column_stride, of.rows), true, alignment};
}

cudaDataType cuda_type(dtype type) {
  switch (type) {
  case dtype::float32:
    return CUDA_R_32F;
  case dtype::bfloat16:
    return CUDA_R_16BF;
  default:
    ops::refuse_type("product", type);
  }
}

} // namespace

/// A product of one shape, ready to run.
struct product_plan {
  description how;
  layout a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace_bytes = 0;
  bool exists = false; ///< whether there is an algorithm at all
};

class product_plans {
public:
  explicit product_plans(remark tell) : tell_(std::move(tell)) {}

  /// A plan that has these pointers until the next call.
  const product_plan& get(product_key key, const epilogue_pointers& with = {}) {
    key.bias_alignment_bytes = alignment_of(with.bias);
    key.inner_alignment_bytes = alignment_of(with.inner);
    auto found = plans_.find(key);
    if (found == plans_.end())
      found = plans_.emplace(key, make(key, with)).first;
    else
      point(found->second, key.after, with);
    return found->second;
  }

  cublasLtHandle_t handle() {
    if (library_.get() == nullptr) // not before the first product: it takes memory and time
      check_blas(cublasLtCreate(library_.out()), "starting cuBLASLt");
    return library_.get();
  }

private:
  product_plan make(const product_key& key, const epilogue_pointers& with);
  void choose(product_plan& plan, const product_key& key);
  static void point(const product_plan& plan, epilogue after, const epilogue_pointers& with);

  remark tell_;
  library library_;
  std::map<product_key, product_plan> plans_;
};

namespace {

void make_layout(layout& made, const operand_key& of, dtype type) {
  check_blas(cublasLtMatrixLayoutCreate(made.out(), cuda_type(type),
                                        static_cast<std::uint64_t>(of.columns),
                                        static_cast<std::uint64_t>(of.rows), of.leading),
             "describing an operand");
}

template <class T>
void set(const description& of, cublasLtMatmulDescAttributes_t which, const T& value) {
  check_blas(cublasLtMatmulDescSetAttribute(of.get(), which, &value, sizeof value),
             "describing a product");
}

template <class T>
void set(const preference& of, cublasLtMatmulPreferenceAttributes_t which, const T& value) {
  check_blas(cublasLtMatmulPreferenceSetAttribute(of.get(), which, &value, sizeof value),
             "choosing an algorithm");
}

} // namespace

void product_plans::point(const product_plan& plan, epilogue after, const epilogue_pointers& with) {
  if (after == epilogue::bias || after == epilogue::gelu)
    set(plan.how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, with.bias);
  if (with_gelu(after))
    set(plan.how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, with.inner);
}

/// c = a b by rows is c^T = b^T a^T by columns: the operands change places.
product_plan product_plans::make(const product_key& key, const epilogue_pointers& with) {
  product_plan made;
  check_blas(cublasLtMatmulDescCreate(made.how.out(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "describing a product");
  set(made.how, CUBLASLT_MATMUL_DESC_TRANSA, key.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made.how, CUBLASLT_MATMUL_DESC_TRANSB, key.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made.how, CUBLASLT_MATMUL_DESC_EPILOGUE, in_cublas(key.after));
  if (with_gelu(key.after))
    set(made.how, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.c.leading);
  point(made, key.after, with); // the choice goes by the pointers' alignment
  make_layout(made.a, key.a, key.type);
  make_layout(made.b, key.b, key.type);
  make_layout(made.c, key.c, key.result);
  choose(made, key);
  return made;
}

/// Of the algorithms that add in a fixed order: no atomics, and partial sums in float32.
void product_plans::choose(product_plan& plan, const product_key& key) {
  preference wanted;
  check_blas(cublasLtMatmulPreferenceCreate(wanted.out()), "choosing an algorithm");
  set(wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace_bytes);
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set(wanted, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b.alignment_bytes);
  set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a.alignment_bytes);
  set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c.alignment_bytes);
  set(wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.c.alignment_bytes);
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const auto status =
    cublasLtMatmulAlgoGetHeuristic(handle(), plan.how.get(), plan.b.get(), plan.a.get(),
                                   plan.c.get(), plan.c.get(), wanted.get(), 1, &best, &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) // which says that there is none
    check_blas(status, "choosing an algorithm");
  plan.exists = found > 0;
  if (!plan.exists && with_gelu(key.after))
    tell_(fmt::format("cuBLASLt has no product with a fused GELU{} that gives [{}, {}] of {}: a "
                      "kernel of its own does it",
                      key.after == epilogue::gelu ? "" : "'s gradient", key.c.rows, key.c.columns,
                      name(key.result)));
  plan.algorithm = best.algo;
  plan.workspace_bytes = best.workspaceSize;
}

operations::operations(cudaStream_t on, remark tell)
  : stream_(on),
    products_(std::make_unique<product_plans>(std::move(tell))) {}

operations::~operations() = default;

void operations::run(stream& on, const product_plan& plan, const ops::const_matrix& a,
                     const ops::const_matrix& b, const ops::matrix& c, ops::write_mode mode) {
  const float one = 1;
  const float old = mode == ops::write_mode::accumulate ? 1 : 0;
  tensor workspace;
  if (plan.workspace_bytes > 0)
    workspace =
      on.allocate(dtype::int32, {static_cast<std::int64_t>(plan.workspace_bytes + 3) / 4});
  check_blas(cublasLtMatmul(
               products_->handle(), plan.how.get(), &one, b.first, plan.b.get(), a.first,
               plan.a.get(), &old, c.first, plan.c.get(), c.first, plan.c.get(), &plan.algorithm,
               workspace ? workspace.bytes_span().data() : nullptr, plan.workspace_bytes, stream_),
             "running");
}

void operations::product(stream& on, const ops::const_matrix& a, const ops::const_matrix& b,
                         const ops::matrix& c, ops::write_mode mode, const tensor& bias) {
  epilogue_pointers with;
  if (bias)
    with.bias = bias.bytes_span().data();
  const auto& plan = products_->get(
    {key_of(a), key_of(b), key_of(c), a.type, c.type, bias ? epilogue::bias : epilogue::none},
    with);
  if (!plan.exists)
    throw std::runtime_error("product: cuBLASLt has no algorithm for this shape");
  run(on, plan, a, b, c, mode);
}

bool operations::product_gelu(stream& on, const linear_operands& from, tensor& inner,
                              tensor& output) {
  const auto a = ops::matrix_of(from.input);
  const auto b = ops::matrix_of(from.weight).transposed();
  const auto c = ops::matrix_of(output);
  if (c.columns % inner_columns != 0)
    return false;
  const auto& plan =
    products_->get({key_of(a), key_of(b), key_of(c), a.type, c.type, epilogue::gelu},
                   {from.bias.bytes_span().data(), inner.bytes_span().data()});
  if (plan.exists)
    run(on, plan, a, b, c, ops::write_mode::overwrite);
  return plan.exists;
}

bool operations::product_gelu_backward(stream& on, const tensor& output_gradient,
                                       const tensor& weight, const tensor& inner,
                                       tensor& gradient) {
  const auto a = ops::matrix_of(output_gradient);
  const auto b = ops::matrix_of(weight);
  const auto c = ops::matrix_of(gradient);
  if (c.columns % inner_columns != 0)
    return false;
  const auto& plan =
    products_->get({key_of(a), key_of(b), key_of(c), a.type, c.type, epilogue::gelu_backward},
                   {.inner = inner.bytes_span().data()});
  if (plan.exists)
    run(on, plan, a, b, c, ops::write_mode::overwrite);
  return plan.exists;
}

} // namespace sluice::kernels::cuda
