#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/cuda/device.hpp"

namespace {

/// Before any test: without a GPU the whole program counts as skipped.
const bool gpu_is_here = [] {
  std::string why;
  if (sluice::kernels::cuda::list(why).empty()) {
    std::fprintf(stderr, "SKIPPED: no GPU here, so nothing was tested: %s\n", why.c_str());
    std::exit(77);
  }
  return true;
}();

} // namespace
