#include <cublasLt.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

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

struct product_key {
  operand_key a, b, c;
  dtype type; ///< of the operands
  dtype result;
  bool with_bias;
  auto operator<=>(const product_key&) const = default;
};

operand_key key_of(const ops::const_matrix& of) {
  const auto address = reinterpret_cast<std::uintptr_t>(of.first);
  const auto alignment =
    static_cast<std::uint32_t>(std::min<std::uintptr_t>(256, address & (~address + 1)));
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
};

class product_plans {
public:
  const product_plan& get(const product_key& key) {
    const auto found = plans_.find(key);
    return found != plans_.end() ? found->second : plans_.emplace(key, make(key)).first->second;
  }

  cublasLtHandle_t handle() {
    if (library_.get() == nullptr) // not before the first product: it takes memory and time
      check_blas(cublasLtCreate(library_.out()), "starting cuBLASLt");
    return library_.get();
  }

private:
  product_plan make(const product_key& key);
  void choose(product_plan& plan, const product_key& key);

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

/// c = a b by rows is c^T = b^T a^T by columns: the operands change places.
product_plan product_plans::make(const product_key& key) {
  product_plan made;
  check_blas(cublasLtMatmulDescCreate(made.how.out(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "describing a product");
  set(made.how, CUBLASLT_MATMUL_DESC_TRANSA, key.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made.how, CUBLASLT_MATMUL_DESC_TRANSB, key.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (key.with_bias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    set(made.how, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  }
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
  check_blas(cublasLtMatmulAlgoGetHeuristic(handle(), plan.how.get(), plan.b.get(), plan.a.get(),
                                            plan.c.get(), plan.c.get(), wanted.get(), 1, &best,
                                            &found),
             "choosing an algorithm");
  if (found == 0)
    throw std::runtime_error("product: cuBLASLt has no algorithm for this shape");
  plan.algorithm = best.algo;
  plan.workspace_bytes = best.workspaceSize;
}

operations::operations(cudaStream_t on)
  : stream_(on),
    products_(std::make_unique<product_plans>()) {}

operations::~operations() = default;

void operations::product(stream& on, const ops::const_matrix& a, const ops::const_matrix& b,
                         const ops::matrix& c, ops::write_mode mode, const tensor& bias) {
  const auto& plan = products_->get({key_of(a), key_of(b), key_of(c), a.type, c.type, bool(bias)});
  if (bias)
    set(plan.how, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        static_cast<const void*>(bias.bytes_span().data()));
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

} // namespace sluice::kernels::cuda
