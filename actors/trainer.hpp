#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/batch.hpp"
#include "actors/caf_compat.hpp"
#include "actors/events.hpp"
#include "actors/messages.hpp"
#include "actors/model_state.hpp"
#include "actors/plan/plan.hpp"
#include "actors/report.hpp"
#include "kernels/stream.hpp"
#include "net/endpoint.hpp"

namespace sluice::actors {

// -- what the trainer actor is asked, and what it answers ----------------------------------------
//
// These hold handles to tensors of this process, so they stay within it: an embedder's actors
// that send them run beside the trainer. A failure answers any of them with a caf::error of
// code runtime_error whose text names rank, chunk, micro-batch and operation; the code is
// `unusable` where no later request can be served either.

inline constexpr auto unusable = caf::sec::connection_closed;

/// One optimizer step. Answer: step_report.
struct train_batch {
  std::shared_ptr<const batch> data;
};

/// The loss without dropout and without an update. Answer: step_report.
struct evaluate_batch {
  std::shared_ptr<const batch> data;
};

/// Runs the inputs through the pipeline. Answer: prediction.
struct predict_batch {
  std::shared_ptr<const batch> data;
};

/// Answer: std::shared_ptr<const model_state>, copied out of the stages.
struct fetch_state {};

/// Answer: unit. Errors: a parameter missing, unknown, or of another shape or type.
struct install_state {
  std::shared_ptr<const model_state> state;
};

/// What a trainer actor is made of.
struct trainer_config {
  plan::plan training;
  std::vector<caf::actor> stages;              ///< by rank
  std::vector<std::vector<std::string>> names; ///< parameters that each rank holds
  std::shared_ptr<net::network> network;       ///< the trainer is the rank after the last
  std::uint64_t seed = 0;
  double clip = 0;                                    ///< global norm; 0: no clipping
  std::function<double(std::uint64_t)> learning_rate; ///< by step
  /// A step whose stages finish no task for so long is aborted, with what each one waits for.
  std::chrono::milliseconds deadline{60'000};
  std::shared_ptr<const step_events> events; ///< null: nobody listens
  std::vector<std::string> places = {}; ///< by rank: its worker; "": this process. Or empty
  std::vector<std::int64_t> clock_offsets_ns = {}; ///< by rank: its clock minus this one. Or empty
};

/// The step protocol: begin, losses, global norm, update; and what surrounds it.
/// One request at a time; later ones wait. Thread: pooled, never blocks.
class trainer_state {
public:
  static constexpr const char* name = "sluice.trainer";

  trainer_state(caf::event_based_actor* self, std::shared_ptr<trainer_config> config);

  caf::behavior make_behavior();

private:
  using clock = std::chrono::steady_clock;

  /// A request under way: how it goes on once all ranks have answered.
  struct operation {
    std::string name; ///< "step 12", as errors say it
    caf::response_promise promise;
    std::uint64_t epoch = 0;
    std::vector<bool> waiting; ///< by rank, for an answer
    std::size_t waiting_count = 0;
    std::function<void()> all_answered;
    std::string failure; ///< why it is being aborted; empty: it is not
    clock::time_point started;
    clock::time_point progressed; ///< when a stage last got on
    std::vector<std::int64_t> tasks_done;
    std::vector<std::string> described;   ///< by rank; empty: has not answered
    std::vector<std::string> interrupted; ///< by rank: what the abort has interrupted
    bool applying = false;                ///< the stages are changing their weights
  };

  void request(std::string name, std::function<void()> begin);
  void next_request();
  template <class Message>
  void to_all(const Message& message, std::function<void()> all_answered);
  void answered(std::uint64_t epoch, std::int32_t rank);
  void go_on();
  void finish(caf::message answer);
  void fail(const std::string& what);
  void give_up();
  std::string what_was_interrupted() const;
  void channel_lost(const std::string& what);
  void stage_lost(std::int32_t rank, const caf::error& reason);

  void run_batch(kernels::nn::purpose purpose, const std::shared_ptr<const batch>& data);
  void check(const batch& data, kernels::nn::purpose purpose) const;
  std::vector<double> loss_scales(const batch& data) const;
  void feed(const batch& data);
  void finish_training();
  void end_step();
  void set_clocks();
  void finish_prediction();
  void fetch();
  void finish_fetch();
  void install(const model_state& state);
  void on_tick();
  void on_description(const description& message);
  void start_watch();
  double mean_loss() const;

  caf::event_based_actor* self_;
  std::shared_ptr<trainer_config> config_;
  net::endpoint& endpoint_;
  kernels::buffer_pool pool_;
  compat::watcher watcher_;
  std::vector<bool> lost_; ///< by rank: the stage actor has ended
  std::string broken_;     ///< why no request can be served any more; empty: they can

  struct queued {
    std::string name;
    caf::response_promise promise;
    std::function<void()> begin;
  };
  std::vector<queued> queue_;
  std::unique_ptr<operation> running_;
  std::uint64_t epoch_ = 0;
  std::uint64_t step_ = 0; ///< updates so far

  // Of the operation under way.
  kernels::nn::purpose purpose_ = kernels::nn::purpose::train;
  std::int64_t valid_targets_ = 0;
  std::shared_ptr<const batch> data_; ///< kept, so that stages always copy it, never take it over
  step_report report_;
  std::vector<stage_done> done_; ///< by rank
  struct output {
    net::transfer what;
    kernels::tensor_list tensors;
  };
  std::vector<output> outputs_; ///< taken as they come: the next one may wait for the slot
  std::size_t outputs_expected_ = 0;
  std::vector<state_names> states_;
};

caf::actor spawn_trainer(caf::actor_system& system, std::shared_ptr<trainer_config> config);

} // namespace sluice::actors
