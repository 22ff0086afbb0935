#include "kernels/arithmetic.hpp"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#ifdef SLUICE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

namespace sluice::kernels {

namespace {

std::string products() {
#ifdef SLUICE_ONEDNN
  const auto* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} (ISA {:#x})", version->major, version->minor, version->patch,
                     static_cast<unsigned>(dnnl_get_effective_cpu_isa()));
#else
  return "OpenBLAS";
#endif
}

} // namespace

std::string arithmetic() {
  std::vector<std::string> parts;
#if defined(__AVX512F__)
  parts.emplace_back("AVX-512");
#endif
#if defined(__AVX2__)
  parts.emplace_back("AVX2");
#endif
#if defined(__FMA__)
  parts.emplace_back("FMA");
#endif
#if defined(__ARM_NEON)
  parts.emplace_back("NEON");
#endif
  if (parts.empty())
    parts.emplace_back("the architecture's own");
  return fmt::format("{}, {}", fmt::join(parts, " + "), products());
}

} // namespace sluice::kernels
