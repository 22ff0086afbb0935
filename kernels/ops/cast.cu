#include "kernels/cuda/check.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/operations.hpp"

namespace sluice::kernels::cuda {

namespace {

// Bound by memory: 6 bytes an element, expected at 85% of the bandwidth.
template <class From, class To>
__global__ void __launch_bounds__(256) cast_kernel(const From* from, To* to, std::int64_t count) {
  for (auto i = first_element(); i < count; i += element_stride())
    store(to + i, load(from + i));
}

} // namespace

void operations::cast(const tensor& from, tensor& to) {
  with_element(from.type(), "cast", [&]<class From>(From) {
    with_element(to.type(), "cast", [&]<class To>(To) {
      constexpr auto& kernel = cast_kernel<From, To>; // a comma would end the macro's argument
      check(SLUICE_LAUNCH(kernel, blocks_for(to.elements()), dim3(256), 0, stream_,
                          elements<From>(from), elements<To>(to), to.elements()),
            "cast");
    });
  });
}

} // namespace sluice::kernels::cuda
