#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/plan/plan.hpp"
#include "net/transfer.hpp"

namespace sluice::actors {

/// What of a step's inputs has reached one rank: the facts behind "its input is here" in the
/// dispatch rule. Pure bookkeeping; the tensors lie in the rank's endpoint.
class arrivals {
public:
  /// Forgets everything and gets ready for one run of `of`. with_targets: whether last chunks
  /// take targets (they do when they have a loss).
  void begin(const plan::plan& of, std::int32_t rank, bool with_targets);

  /// Notes a transfer. Errors: std::logic_error for one that this rank does not expect.
  void note(const net::transfer& what);

  /// Notes that this rank has finished a task, which others on it wait for: a last chunk's
  /// backward for its forward, a weight gradient for its backward, an update for the gradients.
  void note_done(const plan::task& task);

  /// Notes that the weight gradient of a micro-batch is in (W, or a backward that is not split).
  void note_summed(const plan::lane_entry& which);

  /// Whether what the next task of a kind needs is here, and if not, what is missing: "the
  /// activation from chunk 0 on rank 0", for a stall's report.
  bool here(plan::task_kind kind, const plan::lane_entry& next) const;
  std::string missing(plan::task_kind kind, const plan::lane_entry& next) const;

private:
  struct cell {
    bool input = false;    ///< activation or, on a first chunk, the trainer's input
    bool target = false;
    bool gradient = false; ///< of the outputs
    bool forward_done = false;
    bool backward_done = false;
    bool summed = false;   ///< the weight gradient is in
  };

  const cell& at(const plan::lane_entry& which) const;
  cell& at(const plan::lane_entry& which);
  bool first(const plan::lane_entry& which) const;
  bool last(const plan::lane_entry& which) const;

  bool summed_up_to(const plan::lane_entry& update) const;
  std::string neighbour(std::string_view what, std::int32_t chunk) const;

  const plan::plan* plan_ = nullptr;
  std::optional<plan::topology> links_;
  std::int32_t rank_ = 0;
  bool with_targets_ = false;
  std::vector<cell> cells_; ///< by chunk, then micro-batch
};

} // namespace sluice::actors
