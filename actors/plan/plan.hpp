#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::plan {

/// What a rank runs, one at a time.
enum class task_kind : std::uint8_t {
  forward,  ///< F
  backward, ///< B: the gradient of the inputs, or the whole backward where the entry does not split
  weight,   ///< W: the gradient of the weights, of a split backward
  update,   ///< U: applies the gradients summed so far; only in asynchronous plans
};

/// "F", "B", "W" or "U", as the papers write them.
char letter(task_kind kind) noexcept;

/// One task: a chunk's forward, backward or weight gradient of one micro-batch. An update bears the
/// number of the last micro-batch whose gradient it includes.
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
  std::int32_t version = 0; ///< F, B: of the weights it uses; U: it makes; 0 is before any update
  bool split = false;       ///< B: its weight gradient follows as a task of its own

  bool operator==(const lane_entry&) const = default;
};

/// What one rank does in a step, and within which bounds it may choose: the data that dispatch()
/// runs on. Each lane is run in order; between the lanes the rule chooses.
struct rank_plan {
  std::vector<lane_entry> forwards = {};  ///< F
  std::vector<lane_entry> backwards = {}; ///< B
  std::vector<lane_entry> weights = {};   ///< W: one for each split backward
  std::vector<lane_entry> updates = {};   ///< U: each after the gradients up to its micro-batch
  std::int32_t warm_up = 1; ///< wants a backward once forwards - backwards started reaches this
  std::int32_t credits = 1; ///< activations it may hold, from the start of F to the end of B (W)
  bool stand_in = true;     ///< whether the other lane may go when the wanted one cannot
  std::int32_t backward_lead =
    any; ///< by how many backwards may then go ahead of the warm-up level
  std::vector<task_kind> order = {}; ///< if not empty: the one fixed order, merged from the lanes
  /// Look-ahead: how many tasks may be enqueued on the rank's device beyond the one that it runs.
  /// Empty: what suits the device, 1 where it has a queue (a GPU), 0 where it computes at once.
  std::optional<std::int32_t> look_ahead = {};

  static constexpr std::int32_t any = 1 << 30;

  const std::vector<lane_entry>& lane(task_kind kind) const;
  std::vector<lane_entry>& lane(task_kind kind);

  /// How many tasks of all kinds.
  std::int64_t tasks() const;

  bool operator==(const rank_plan&) const = default;
};

/// Where a chunk runs and which part of the model it is.
struct chunk_place {
  std::int32_t rank = 0;
  std::int32_t part = 0;  ///< parts are contiguous runs of layers, numbered from the input
  std::int32_t local = 0; ///< its number among the chunks of its rank

  bool operator==(const chunk_place&) const = default;
};

/// An output that leaps over parts: part `from` feeds part `to`, beside the part after it.
struct skip_edge {
  std::int32_t from_part = 0;
  std::int32_t to_part = 0;

  bool operator==(const skip_edge&) const = default;
};

/// A schedule as data: everything that the actors, the simulator, the checker and the drawings
/// know of it. Chunks are numbered over all ranks; micro-batches from 0.
struct plan {
  std::string schedule;           ///< "1f1b"
  std::int32_t ranks = 0;         ///< P
  std::int32_t micro_batches = 0; ///< M, of one step
  std::int32_t parts = 0;         ///< into how many the model is cut; each by every route once
  bool forward_only = false;      ///< evaluation and inference: no backwards, a credit ends with F
  bool asynchronous = false;      ///< weights are updated within the step: no global clipping
  std::int32_t receive_slots = 0; ///< per edge between ranks and direction; 0: as many as needed
  std::vector<chunk_place> chunks = {};
  /// Paths through the chunks, first to last, each chunk on one of them and each part once by all.
  /// Most schedules have one; DualPipe has two.
  std::vector<std::vector<std::int32_t>> routes = {};
  std::vector<std::int32_t> route_of = {}; ///< by micro-batch
  std::vector<skip_edge> skips = {};
  std::vector<rank_plan> by_rank = {};

  const std::vector<std::int32_t>& route(std::int32_t micro_batch) const {
    return routes[route_of[micro_batch]];
  }

  /// How much of one of P equal stages a chunk is: 1 / chunks a route has on a rank.
  double share() const { return parts > 0 ? static_cast<double>(ranks) / parts : 0; }
};

/// "F2 of chunk 1 on rank 3": the chunk as its rank counts.
std::string to_string(const plan& of, const task& which);

/// Whether any backward leaves its weight gradient to a task of its own.
bool splits(const plan& of);

/// Who feeds whom. Forwards go from the sources of a chunk to it and on to its targets; gradients
/// go the other way. A chunk is on one route, so this holds for all micro-batches that visit it.
class topology {
public:
  explicit topology(const plan& of);

  /// The chunks whose output a chunk needs; none for the first of a route.
  std::span<const std::int32_t> sources(std::int32_t chunk) const { return sources_[chunk]; }

  /// The chunks that its output goes to; none for the last of a route, which has the loss.
  std::span<const std::int32_t> targets(std::int32_t chunk) const { return targets_[chunk]; }

  /// Where the output of a task goes: the targets of F, the sources of B, nothing otherwise.
  std::span<const std::int32_t> receivers(task_kind kind, std::int32_t chunk) const;

  /// The route that a chunk is on.
  std::int32_t route(std::int32_t chunk) const { return route_[chunk]; }

private:
  std::vector<std::vector<std::int32_t>> sources_;
  std::vector<std::vector<std::int32_t>> targets_;
  std::vector<std::int32_t> route_;
};

} // namespace sluice::plan
