#include "kernels/nn/footprint.hpp"

#include <stdexcept>

namespace sluice::kernels::nn {

namespace {

/// Runs a task and adds what it needed of the pool to a footprint.
template <class Task>
void count(stream& on, footprint& into, Task task) {
  on.pool().begin_task();
  task();
  into.demand.add(on.pool().end_task(), 1);
}

} // namespace

std::vector<footprint> measure_footprints(stream& on, std::span<stage_module* const> modules,
                                          const tensor_list& inputs, backward_kind kind) {
  if (modules.empty())
    throw std::invalid_argument("footprints: no modules");
  std::vector<footprint> all(modules.size());
  std::vector<activation> saved;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto before = on.pool().usage().device_bytes;
    modules[i]->initialise(on, 1);
    all[i].state_bytes = on.pool().usage().device_bytes - before;
    saved.push_back(modules[i]->make_activation());
  }
  const micro_batch which{.split = kind == backward_kind::split};
  auto flowing = inputs;
  for (std::size_t i = 0; i < modules.size(); ++i)
    count(on, all[i],
          [&] { flowing = modules[i]->forward(on, which, std::move(flowing), saved[i]); });
  flowing.clear(); // after a loss there is no gradient
  for (std::size_t i = modules.size(); i-- > 0;) {
    const auto backward = [&] {
      flowing = modules[i]->backward_input(on, which, std::move(flowing), saved[i]);
    };
    const auto weight = [&] { modules[i]->backward_weight(on, which, saved[i]); };
    if (kind == backward_kind::split) {
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
