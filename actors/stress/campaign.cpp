#include "actors/stress/campaign.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <fmt/format.h>

#include "actors/pipeline.hpp"
#include "actors/stress/trial_run.hpp"

namespace sluice::stress {

namespace {

using clock = std::chrono::steady_clock;

/// Few workers, so that more actors than workers want to run.
struct system_config : caf::actor_system_config {
  system_config() {
    actors::register_messages();
    set("caf.scheduler.policy", "sharing");
    set("caf.scheduler.max-threads", 3);
    set("caf.scheduler.max-throughput", 1);
    set("caf.logger.console.verbosity", "quiet");
  }
};

/// Trials on several threads, each of which takes the next one.
class runner {
public:
  explicit runner(const campaign& wanted) : wanted_(wanted) {}

  campaign_report run() {
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < wanted_.at_once; ++i)
        threads.emplace_back([this] { run_some(); });
    }
    std::ranges::sort(report_.failures, {}, &failure::index);
    report_.seconds = elapsed();
    return std::move(report_);
  }

private:
  void run_some() {
    for (;;) {
      const auto index = next_++;
      if (index >= wanted_.trials || enough_
          || (wanted_.time && elapsed() >= wanted_.time->count()))
        return;
      const auto seed = wanted_.replay.value_or(trial_seed(wanted_.seed, index));
      const auto made = std::make_shared<const trial>(make_trial(seed));
      note(index, *made, run_trial(made, {system_, references_, wanted_.deadline, wanted_.bug}));
    }
  }

  void note(std::uint64_t index, const trial& of, std::string wrong) {
    const std::lock_guard lock(guard_);
    ++report_.trials;
    if (wrong.empty()) {
      report_.refused += of.verdict.live ? 0 : 1;
      return;
    }
    auto replay = fmt::format("sluice stress --replay {}", of.seed);
    if (wanted_.bug != seeded_bug::none)
      replay += fmt::format(" --bug {}", name_of(wanted_.bug));
    report_.failures.push_back(
      {of.seed, index, std::move(wrong), to_string(of), std::move(replay)});
    enough_ = report_.failures.size() >= wanted_.failures;
    if (wanted_.on_failure)
      wanted_.on_failure(report_.failures.back());
  }

  double elapsed() const { return std::chrono::duration<double>(clock::now() - started_).count(); }

  const campaign& wanted_;
  const clock::time_point started_ = clock::now();
  system_config config_;
  caf::actor_system system_{config_};
  reference_book references_;
  std::atomic<std::uint64_t> next_ = 0;
  std::atomic<bool> enough_ = false;
  std::mutex guard_; // of report_
  campaign_report report_;
};

} // namespace

campaign_report run(const campaign& wanted) {
  return runner(wanted).run();
}

} // namespace sluice::stress
