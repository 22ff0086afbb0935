#include "kernels/nn/master.hpp"

#include "kernels/ops/cast.hpp"

namespace sluice::kernels::nn {

namespace {

bool needs_master(const parameter& of) {
  return of.value.type() != accumulation_type(of.value.type());
}

} // namespace

std::optional<parameter> make_master(stream& on, const parameter& of) {
  if (!needs_master(of))
    return std::nullopt;
  auto made = of;
  made.value = ops::cast(on, of.value, accumulation_type(of.value.type()));
  made.value.set_use(buffer_use::parameter);
  return made;
}

std::size_t tensors_beside(const parameter& of, std::size_t slots) {
  return slots + (needs_master(of) ? 1 : 0);
}

} // namespace sluice::kernels::nn
