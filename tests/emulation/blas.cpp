// cuBLASLt's matrix product on the processor: plain loops, sums in float32, one rounding at the
// end. What it does not know it refuses.

#include <cublasLt.h>
#include <cuda_bf16.h>

#include <cmath>
#include <cstring>

#include "tests/emulation/runtime_call.hpp"

namespace sluice::emulation {

namespace {

struct description {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* inner = nullptr; ///< what goes into a GELU
  std::int64_t inner_leading = 0;

  bool wants_bias() const {
    return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
  bool wants_inner() const {
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_DGELU;
  }
};

// The approximation by the hyperbolic tangent, which cuBLASLt has.
constexpr float root = 0.7978845608F; // sqrt(2 / pi)
constexpr float cubic = 0.044715F;

float gelu(float x) {
  return 0.5F * x * (1 + std::tanh(root * (x + cubic * x * x * x)));
}

float gelu_slope(float x) {
  const float t = std::tanh(root * (x + cubic * x * x * x));
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * root * (1 + 3 * cubic * x * x);
}

struct layout {
  cudaDataType type = CUDA_R_32F;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t leading = 0;
};

template <class T, class Handle>
T& behind(Handle handle) {
  return *reinterpret_cast<T*>(handle);
}

template <class T>
cublasStatus_t set(T& value, const void* from, std::size_t bytes) {
  if (bytes != sizeof(T))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&value, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t size_of(cudaDataType type) {
  return type == CUDA_R_32F ? 4 : 2;
}

float load(const void* from, cudaDataType type, std::int64_t at) {
  return type == CUDA_R_32F ? static_cast<const float*>(from)[at]
                            : __bfloat162float(static_cast<const __nv_bfloat16*>(from)[at]);
}

void store(void* to, cudaDataType type, std::int64_t at, float value) {
  if (type == CUDA_R_32F)
    static_cast<float*>(to)[at] = value;
  else
    static_cast<__nv_bfloat16*>(to)[at] = __float2bfloat16(value);
}

struct product {
  description how;
  layout a, b, c;
  const void* left;
  const void* right;
  const void* old;
  void* result;
  float alpha, beta;

  void run() const {
    const auto depth = how.transpose_a == CUBLAS_OP_N ? a.columns : a.rows;
    const auto step_a = how.transpose_a == CUBLAS_OP_N ? a.leading : 1;
    const auto skip_a = how.transpose_a == CUBLAS_OP_N ? 1 : a.leading;
    const auto step_b = how.transpose_b == CUBLAS_OP_N ? 1 : b.leading;
    const auto skip_b = how.transpose_b == CUBLAS_OP_N ? b.leading : 1;
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(c.columns); ++j)
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(c.rows); ++i) {
        float sum = 0;
        for (std::int64_t k = 0; k < static_cast<std::int64_t>(depth); ++k)
          sum += load(left, a.type, i * skip_a + k * step_a)
               * load(right, b.type, j * skip_b + k * step_b);
        sum *= alpha;
        if (beta != 0) // else C is not read: it may hold NaN
          sum += beta * load(old, c.type, i + j * c.leading);
        if (how.wants_bias())
          sum += load(how.bias, c.type, i);
        if (how.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
          store(how.inner, c.type, i + j * how.inner_leading, sum);
          sum = gelu(sum);
        } else if (how.epilogue == CUBLASLT_EPILOGUE_DGELU) {
          sum *= gelu_slope(load(how.inner, c.type, i + j * how.inner_leading));
        }
        store(result, c.type, i + j * c.leading, sum);
      }
  }
};

bool fits(call& in, const layout& of, const void* memory) {
  const auto bytes =
    (static_cast<std::size_t>(of.leading) * (of.columns - 1) + of.rows) * size_of(of.type);
  for (const auto& device : in.all.devices)
    if (device->memory.bytes_from(memory) >= bytes)
      return of.leading >= static_cast<std::int64_t>(of.rows);
  return false;
}

bool agrees(const description& how, const layout& a, const layout& b, const layout& c) {
  const bool plain_a = how.transpose_a == CUBLAS_OP_N;
  const bool plain_b = how.transpose_b == CUBLAS_OP_N;
  return (plain_a ? a.rows : a.columns) == c.rows && (plain_b ? b.columns : b.rows) == c.columns
      && (plain_a ? a.columns : a.rows) == (plain_b ? b.rows : b.columns) && a.type == b.type
      && (a.type == c.type || c.type == CUDA_R_32F) && how.compute == CUBLAS_COMPUTE_32F;
}

bool fits_epilogue(call& in, const product& what) {
  const auto& how = what.how;
  if (how.wants_bias() != (how.bias != nullptr) || how.wants_inner() != (how.inner != nullptr))
    return false;
  auto bias = what.c;
  bias.columns = 1;
  if (how.wants_bias() && !fits(in, bias, how.bias))
    return false;
  auto inner = what.c;
  inner.leading = how.inner_leading;
  return !how.wants_inner() || (how.inner_leading % 8 == 0 && fits(in, inner, how.inner));
}

} // namespace
} // namespace sluice::emulation

using namespace sluice::emulation;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "an emulated cuBLASLt error";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t) {
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new description{compute});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t of) {
  delete reinterpret_cast<description*>(of);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* value, std::size_t bytes) {
  auto& how = behind<description>(of);
  switch (which) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return set(how.transpose_a, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return set(how.transpose_b, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return set(how.epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return set(how.bias, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return set(how.inner, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return set(how.inner_leading, value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(new layout{type, rows, columns, leading});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t of) {
  delete reinterpret_cast<layout*>(of);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t of) {
  delete reinterpret_cast<int*>(of);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t of,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  call in(__func__);
  const auto& how = behind<description>(of);
  if (wanted < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  // It goes by the alignment of what the epilogue points to.
  if (how.wants_bias() != (how.bias != nullptr) || how.wants_inner() != (how.inner != nullptr)) {
    in.all.violate_locked("cublasLtMatmulAlgoGetHeuristic: an epilogue without its pointers");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *found = 0;
  if (how.wants_inner() && !in.all.fused_gelu)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {};
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t*, void*, std::size_t, cudaStream_t on) {
  call in(__func__);
  const product what{behind<description>(how),
                     behind<layout>(a_layout),
                     behind<layout>(b_layout),
                     behind<layout>(c_layout),
                     a,
                     b,
                     c,
                     d,
                     *static_cast<const float*>(alpha),
                     *static_cast<const float*>(beta)};
  if (!agrees(what.how, what.a, what.b, what.c) || c != d || !fits(in, what.a, a)
      || !fits(in, what.b, b) || !fits(in, what.c, c) || !fits_epilogue(in, what)) {
    in.all.violate_locked("cublasLtMatmul: operands that do not fit, or lie nowhere");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  auto made = std::make_shared<operation>();
  made->label = "a matrix product";
  made->opens = in.all.device_bit_of(d);
  made->body = [what] { what.run(); };
  return in.enqueue(on, std::move(made)) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                        : CUBLAS_STATUS_EXECUTION_FAILED;
}

} // extern "C"
