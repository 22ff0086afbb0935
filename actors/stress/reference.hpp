#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/stress/serial_run.hpp"
#include "actors/stress/trial.hpp"

namespace sluice::stress {

/// What a trial's serial run leaves behind, and so must the pipeline.
struct reference {
  std::vector<serial_run::result> steps;
  byte_map bytes; ///< weights, optimizer state and the last gradients
  double evaluation = 0;
  std::vector<std::vector<std::byte>> predictions; ///< by micro-batch
};

/// The batch of a trial's step; the one after the last step is for evaluation.
actors::batch batch_of(const trial& of, int step);

/// Serial runs, each made once for all trials that share it. Those whose lanes sum gradients in
/// an order of their own share it with nobody, and are not kept.
/// Thread: any.
class reference_book {
public:
  std::shared_ptr<const reference> of(const trial& which);

private:
  struct key {
    small_model::kind kind = {};
    std::int32_t layers = 0;
    std::vector<std::int64_t> samples = {};
    std::vector<std::int32_t> route_of = {};

    auto operator<=>(const key&) const = default;
  };

  std::mutex guard_;
  std::map<key, std::shared_ptr<const reference>> made_;
};

} // namespace sluice::stress
