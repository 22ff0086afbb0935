#include "kernels/nn/footprint.hpp"

#include <stdexcept>

#include "kernels/nn/master.hpp"

namespace sluice::kernels::nn {

namespace {

/// Runs a task and adds what it needed of the pool to a footprint.
template <class Task>
void count(stream& on, footprint& into, Task task) {
  on.pool().begin_task();
  task();
  into.demand.add(on.pool().end_task(), 1);
}

/// In whole buffers of a pool of its own, one tensor at a time.
std::size_t bytes_beside(stage_module& module, std::size_t slots) {
  std::size_t bytes = 0;
  for (const auto& each : module.parameters()) {
    buffer_pool apart(make_cpu_device());
    const auto one = apart.allocate(each.gradient.type(), each.gradient.shape());
    bytes += tensors_beside(each, slots) * apart.usage().device_bytes;
  }
  return bytes;
}

} // namespace

std::vector<footprint> measure_footprints(stream& on, std::span<stage_module* const> modules,
                                          const footprint_request& with) {
  if (modules.empty())
    throw std::invalid_argument("footprints: no modules");
  std::vector<footprint> all(modules.size());
  std::vector<activation> saved;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto before = on.pool().usage().device_bytes;
    modules[i]->initialise(on, 1);
    all[i].state_bytes = on.pool().usage().device_bytes - before;
    all[i].beside_bytes = bytes_beside(*modules[i], with.slots);
    saved.push_back(modules[i]->make_activation());
  }
  const micro_batch which{.split = with.kind == backward_kind::split};
  auto flowing = with.inputs;
  for (std::size_t i = 0; i < modules.size(); ++i)
    count(on, all[i],
          [&] { flowing = modules[i]->forward(on, which, std::move(flowing), saved[i]); });
  flowing.clear(); // after a loss there is no gradient
  for (std::size_t i = modules.size(); i-- > 0;) {
    const auto backward = [&] {
      flowing = modules[i]->backward_input(on, which, std::move(flowing), saved[i]);
    };
    const auto weight = [&] { modules[i]->backward_weight(on, which, saved[i]); };
    if (with.kind == backward_kind::split) {
      count(on, all[i], backward);
      count(on, all[i], weight);
    } else {
      count(on, all[i], [&] {
        backward();
        weight();
      });
    }
  }
  return all;
}

} // namespace sluice::kernels::nn
