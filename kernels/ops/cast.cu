#include "kernels/cuda/check.hpp"
#include "kernels/cuda/element.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/tensor_table.hpp"

namespace sluice::kernels::cuda {

namespace {

// Bound by memory: 6 bytes an element, expected at 85% of the bandwidth.
template <class From, class To>
__global__ void __launch_bounds__(256) cast_kernel(const From* from, To* to, std::int64_t count) {
  for (auto i = first_element(); i < count; i += element_stride())
    store(to + i, load(from + i));
}

struct rounding_pointers {
  const float* from;
  bfloat16* to;
};
using rounding_table = tensor_table<rounding_pointers, 2>;
static_assert(sizeof(rounding_table) <= argument_bytes);

// Bound by memory: 6 bytes an element, expected at 85% of the bandwidth.
__global__ void __launch_bounds__(256) round_kernel(const rounding_table table) {
  const auto piece = piece_of(table, static_cast<std::int32_t>(blockIdx.x));
  const auto& of = table.entries[piece.entry].of;
  for (auto i = piece.begin + threadIdx.x; i < piece.end; i += blockDim.x)
    store(of.to + i, of.from[i]);
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

void operations::round_all(std::span<const ops::rounding> all) {
  const auto element = [&](std::size_t i) {
    const rounding_pointers of{elements<float>(all[i].from), elements<bfloat16>(all[i].to)};
    return std::pair(of, all[i].to.elements());
  };
  for_each_table<rounding_table>(
    all.size(), element, [&](const rounding_table& table, std::size_t) {
      if (table.pieces > 0)
        check(SLUICE_LAUNCH(round_kernel, dim3(static_cast<unsigned>(table.pieces)), dim3(256), 0,
                            stream_, table),
              "rounding");
    });
}

} // namespace sluice::kernels::cuda
