#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/caf_compat.hpp"
#include "actors/events.hpp"
#include "actors/messages.hpp"
#include "actors/plan/ledger.hpp"
#include "actors/plan/plan.hpp"
#include "actors/rank_work.hpp"
#include "net/endpoint.hpp"

namespace sluice::actors {

/// What a stage actor is made of.
struct stage_config {
  std::int32_t rank = 0;
  plan::plan training;
  std::unique_ptr<rank_work> work;
  std::shared_ptr<net::network> network; ///< the trainer is the rank after the last
  std::vector<shared_parameter> shared;
  /// How much longer than its computation a task takes (split: a backward without its weight
  /// gradient): emulated devices, and tests that shake the timing. Empty: none.
  std::function<caf::timespan(const plan::task&, bool split)> extra_time;
  std::shared_ptr<const step_events> events; ///< null: nobody listens
  /// How long it hopes for the input that it wants before it takes a stand-in.
  std::chrono::nanoseconds patience = plan::default_patience;
};

/// The stage actor: owns one device, is that device's host thread, and runs the dispatch rule over
/// its part of the plan. See messages.hpp for what it is sent and answers.
///
/// Each handler ends with advance(): ask the rule, start a task, and as many more as the plan's
/// look-ahead lets the device queue. Where that is 0, as on a processor, messages, an abort among
/// them, are handled between any two tasks.
///
/// The rule is asked when a task is enqueued, for what it needs of its own rank is there in the
/// device's order: results of the tasks before it, and the memory of activations that they free.
/// What other ranks give must have arrived; what they get leaves when the device is done with it.
/// Thread: its own (detached) where it computes; a pooled one where it only emulates.
class stage_state {
public:
  static constexpr const char* name = "sluice.stage";

  stage_state(caf::event_based_actor* self, std::shared_ptr<stage_config> config);

  ~stage_state();
  stage_state(const stage_state&) = delete;
  stage_state& operator=(const stage_state&) = delete;

  caf::behavior make_behavior();

private:
  /// What the actor is in the middle of, besides its tasks.
  enum class phase : std::uint8_t {
    idle,       ///< between steps
    running,    ///< tasks of the plan
    exchanging, ///< all tasks done, gradients of shared parameters under way
    installing, ///< parameters from the trainer under way
    failed,     ///< reported; waits for the abort
  };

  /// A plan with this rank's bookkeeping over it.
  struct run {
    run(plan::plan of, std::int32_t rank);
    run(const run&) = delete; // The members point at each other.
    plan::plan plan;
    plan::topology links;
    plan::ledger book;
  };

  void on_set_up(const set_up& message);
  void on_begin(const begin_step& message);
  void on_arrived(const net::transfer& what);
  void on_task_done(const task_done& message);
  void on_abort(const abort_step& message);
  void on_send_state(const send_state& message);
  void on_load_state(const load_state& message);

  void enter(std::uint64_t epoch);
  void note(const net::transfer& what);
  void advance(std::int64_t since_ns);
  bool waits_patiently();
  void start(const plan::task& task, std::int64_t since_ns);
  kernels::tensor_list compute(const plan::task& task);
  std::optional<net::transfer> transfer_of(const plan::task& task) const;
  std::size_t look_ahead() const;
  void tell(std::function<void(const task_event&)> step_events::*which,
            const plan::task& what) const;
  void tell_gradients();
  bool exchanges_twins() const;
  void exchange_twins();
  void finish_exchange();
  void finish_abort();
  std::string doing() const;
  std::string waits_for() const;
  run& run_of(const begin_step& step);
  std::int32_t rank_of_chunk(std::int32_t chunk) const;
  std::int32_t trainer_rank() const { return config_->training.ranks; }
  std::int64_t now_ns() const;

  /// Runs a handler's body; an exception becomes stage_failed, with what was being done.
  template <class Function>
  void guarded(Function body);
  void report(const std::string& what, bool lasting);

  caf::event_based_actor* self_;
  std::shared_ptr<stage_config> config_;
  rank_work& work_;
  net::endpoint& endpoint_;
  caf::actor trainer_;
  std::uint64_t seed_ = 0;
  run training_;
  std::map<std::int32_t, std::unique_ptr<run>> forward_runs_; ///< by micro-batches

  // The step under way.
  phase phase_ = phase::idle;
  std::uint64_t epoch_ = 0;
  std::uint64_t aborted_epoch_ = 0;
  bool abort_pending_ = false; ///< an abort came while the device was busy
  std::string interrupted_;    ///< what it was at when the abort came
  begin_step step_;
  run* run_ = nullptr;
  struct enqueued_task {
    executed_task run;
    kernels::tensor_list results; ///< for another rank, until it is done
    std::int64_t due_ns = 0;      ///< when an emulated one ends
  };
  std::deque<enqueued_task> enqueued_; ///< on the device, the one that it runs first
  std::optional<plan::task> doing_;    ///< whose code this thread is in
  std::int64_t patient_until_ns_ = 0;  ///< a look_again is under way for then
  std::vector<executed_task> tasks_;
  std::vector<net::transfer> early_; ///< arrivals of a step whose begin is still under way
  struct loose_transfer {
    net::transfer what;
    kernels::tensor_list tensors;
  };
  /// Arrivals outside the plan: twins and states. Taken as they come, since the next one may wait
  /// for the slot.
  std::vector<loose_transfer> loose_;
  std::vector<std::string> installing_;
};

/// Starts a stage actor. detached: on a thread of its own, as every stage that computes should be.
caf::actor spawn_stage(caf::actor_system& system, std::shared_ptr<stage_config> config,
                       bool detached);

} // namespace sluice::actors
