#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/plan/dispatch.hpp"

namespace sluice::plan {

/// Payloads from outside the plan that the forwards at the ends of a route wait for, beside what
/// other chunks send: the trainer's inputs at the first, its targets at the last.
struct outside {
  std::uint8_t to_first = 0;
  std::uint8_t to_last = 0;
};

/// One rank's bookkeeping within a step: what has arrived, what runs, what is held. It turns
/// messages into the few numbers that dispatch() decides on. The stage actor and the simulator keep
/// the same ledger, so that they choose alike.
///
///     ledger.arrived(task_kind::forward, chunk, micro_batch)      // by messages
///     while (auto next = ledger.next()) { ledger.start(*next); ... ledger.finish(*next); }
///
/// Errors: what cannot happen in a correct run (a payload that comes twice, a task finished that
/// was not started) throws std::logic_error that names rank, chunk, micro-batch and kind.
/// Cost: constant time a call; 4 bytes for each micro-batch of each of the rank's chunks.
class ledger {
public:
  /// Both arguments must outlive the ledger.
  ledger(const plan& of, const topology& feeds, std::int32_t rank);

  /// Ready for the next step; keeps its memory.
  void reset(outside from_trainer = {});

  /// An input of the rank's own task `kind` (F or B) has arrived: from another rank, from a chunk
  /// beside it on the same rank, or from outside.
  void arrived(task_kind kind, std::int32_t chunk, std::int32_t micro_batch);

  /// The receiver `to` has taken an output of this rank's chunk `from` out of its receive slot.
  /// Only where the plan bounds the slots, and only between ranks.
  void slot_returned(task_kind kind, std::int32_t from, std::int32_t to);

  /// What to start now; nothing: wait for a message.
  std::optional<task> next() const;

  /// Whether next() is a stand-in for a task that only lacks its input; see dispatch.hpp.
  bool next_stands_in() const { return is_stand_in(mine(), now_); }

  /// The next entry of a lane; null at its end.
  const lane_entry* head(task_kind kind) const;

  void start(const task& which);
  void finish(const task& which);

  /// Why nothing can start: for each lane, what its next task lacks. One line, for a stall's
  /// report.
  std::string waits_for() const;

  bool all_started() const { return sluice::plan::all_started(mine(), now_); }
  const rank_progress& progress() const { return now_; }
  std::int32_t peak_activations() const { return peak_; }

private:
  struct state {                       // of one micro-batch in one chunk
    std::uint8_t forward_missing = 0;  // inputs
    std::uint8_t backward_missing = 0; // gradients; at the end of a route, its own F
    bool gradient_done = false;        // of the inputs
    bool summed = false;               // the whole gradient is done
  };

  const rank_plan& mine() const { return of_->by_rank[rank_]; }
  state& at(std::int32_t chunk, std::int32_t micro_batch);
  const state& at(std::int32_t chunk, std::int32_t micro_batch) const;
  std::int32_t& in_flight(task_kind kind, std::int32_t from, std::int32_t to);
  bool slots_free(const task& sender) const;
  void hold_slots(const task& sender);
  void look_at_heads();
  std::string lacks(task_kind kind, const lane_entry& next) const;
  [[noreturn]] void broken(const task& which, const char* what) const;

  const plan* of_;
  const topology* feeds_;
  std::int32_t rank_;
  std::vector<std::int32_t> chunks_;  // on this rank
  std::vector<std::int32_t> updates_; // done, by local chunk
  std::vector<std::int32_t> owed_;    // split backwards whose W has not started, by local chunk
  std::vector<state> states_;         // by local chunk and micro-batch
  struct edge {
    task_kind kind;
    std::int32_t from, to, in_flight;
  };
  std::vector<edge> edges_; // to other ranks, where slots are bounded
  rank_progress now_;
  std::int32_t peak_ = 0;
};

} // namespace sluice::plan
