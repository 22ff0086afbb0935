#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::plan {

/// What a rank runs, one at a time.
enum class task_kind : std::uint8_t {
  forward,  ///< F
  backward, ///< B: the gradient of the inputs; the whole backward where the plan does not split
  weight,   ///< W: the gradient of the weights; only where the plan splits
};

/// "F", "B" or "W", as the papers write them.
char letter(task_kind kind) noexcept;

/// One task: a chunk's forward, backward or weight gradient of one micro-batch.
struct task {
  task_kind kind = task_kind::forward;
  std::int32_t chunk = 0;
  std::int32_t micro_batch = 0;

  bool operator==(const task&) const = default;
};

/// "F2 of chunk 1": kind and micro-batch, then the chunk.
std::string to_string(const task& which);

/// An entry of a lane: the kind is the lane's.
struct lane_entry {
  std::int32_t chunk = 0;
  std::int32_t micro_batch = 0;

  bool operator==(const lane_entry&) const = default;
};

/// What one rank does in a step, and within which bounds it may choose: the data that dispatch()
/// runs on.
struct rank_plan {
  std::vector<lane_entry> forwards;  ///< the order in which it runs its forwards
  std::vector<lane_entry> backwards; ///< the order of its backwards, and of its weight gradients
  std::int32_t warm_up = 1;  ///< wants a backward once forwards - backwards started reaches this
  std::int32_t credits = 1;  ///< activations it may hold, from the start of F to the end of B (W)
  bool stand_in = true;      ///< whether the other lane may go when the wanted one cannot
  std::vector<task_kind> order; ///< if not empty: the one fixed order, merged from the lanes

  bool operator==(const rank_plan&) const = default;
};

/// Where a chunk runs and which part of the model it is.
struct chunk_place {
  std::int32_t rank = 0;
  std::int32_t part = 0; ///< parts are contiguous runs of layers, numbered from the input

  bool operator==(const chunk_place&) const = default;
};

/// A schedule as data: everything that the actors, the simulator, the checker and the drawings
/// know of it. Chunks are numbered over all ranks; micro-batches from 0.
struct plan {
  std::string schedule;          ///< "1f1b"
  std::int32_t ranks = 0;        ///< P
  std::int32_t micro_batches = 0; ///< M, of one step
  std::int32_t parts = 0;        ///< into how many the model is cut; each by every route once
  bool split_backward = false;   ///< whether B and W are tasks of their own
  bool forward_only = false;     ///< evaluation and inference: no backwards, a credit ends with F
  std::vector<chunk_place> chunks;
  /// Paths through the chunks, first to last. Most schedules have one; DualPipe has two.
  std::vector<std::vector<std::int32_t>> routes;
  std::vector<std::int32_t> route_of; ///< by micro-batch
  std::vector<rank_plan> by_rank;

  const std::vector<std::int32_t>& route(std::int32_t micro_batch) const {
    return routes[static_cast<std::size_t>(route_of[static_cast<std::size_t>(micro_batch)])];
  }
};

/// The chunk before or after `chunk` on the route of a micro-batch; -1 at its ends.
std::int32_t previous_chunk(const plan& of, std::int32_t chunk, std::int32_t micro_batch);
std::int32_t next_chunk(const plan& of, std::int32_t chunk, std::int32_t micro_batch);

/// How many tasks of each kind a rank has in a step.
std::int64_t task_count(const plan& of, std::int32_t rank);

} // namespace sluice::plan
