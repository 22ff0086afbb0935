#include "kernels/nn/make_module.hpp"

#include "kernels/nn/init.hpp"
#include "kernels/ops/require.hpp"

namespace sluice::kernels::nn {

void set_up(parameter& which, stream& on, std::uint64_t seed, const initial_parameter& how) {
  which.value = on.allocate(how.type, how.shape);
  fill_initial(which.value, how.deviation > 0 ? normal(how.deviation) : zeros(), seed, which.name);
  if (how.mean != 0)
    ops::with_float(how.type, "initial values", [&]<class T>(T) {
      for (auto& each : which.value.template span<T>())
        each += static_cast<T>(how.mean);
    });
  which.gradient = on.zeros(how.type, how.shape);
  which.value.set_use(buffer_use::parameter);
  which.gradient.set_use(buffer_use::parameter);
}

} // namespace sluice::kernels::nn
