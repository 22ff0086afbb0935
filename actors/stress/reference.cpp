#include "actors/stress/reference.hpp"

#include <algorithm>

namespace sluice::stress {

namespace {

std::int32_t part_of(const trial& which, std::size_t layer) {
  std::size_t end = 0;
  std::int32_t part = 0;
  for (const auto size : which.cut) {
    end += size;
    if (layer < end)
      break;
    ++part;
  }
  return part;
}

/// Whether every chunk sums its micro-batches in ascending order, as all shipped plans do.
bool sums_ascending(const plan::plan& of) {
  for (std::size_t route = 0; route < of.routes.size(); ++route)
    for (std::int32_t part = 0; part < of.parts; ++part)
      if (!std::ranges::is_sorted(sum_order(of, static_cast<std::int32_t>(route), part)))
        return false;
  return true;
}

std::shared_ptr<const reference> make_reference(const trial& which, bool ascending) {
  serial_run::options options{.layers = which.model.make(),
                              .optimizer = small_optimizer(),
                              .seed = small_seed,
                              .clip = small_clip,
                              .learning_rate = small_learning_rate,
                              .route_of = which.plan.route_of};
  if (!ascending)
    options.order = [&which](std::int32_t route, std::size_t layer) {
      return sum_order(which.plan, route, part_of(which, layer));
    };
  serial_run serial(std::move(options));
  auto made = std::make_shared<reference>();
  for (int step = 0; step < steps; ++step)
    made->steps.push_back(serial.step(batch_of(which, step)));
  made->bytes = serial.bytes();
  const auto unseen = batch_of(which, steps);
  made->evaluation = serial.evaluate(unseen);
  for (const auto& outputs : serial.predict(unseen)) {
    const auto bytes = std::as_const(outputs.at(0)).bytes_span();
    made->predictions.emplace_back(bytes.begin(), bytes.end());
  }
  return made;
}

} // namespace

actors::batch batch_of(const trial& of, int step) {
  return of.model.batch(static_cast<std::uint64_t>(step) + 1, of.samples);
}

std::shared_ptr<const reference> reference_book::of(const trial& which) {
  if (!sums_ascending(which.plan))
    return make_reference(which, false);
  const std::lock_guard lock(guard_);
  auto& found = made_[{which.model.of, which.model.layers, which.samples, which.plan.route_of}];
  if (found == nullptr)
    found = make_reference(which, true);
  return found;
}

} // namespace sluice::stress
