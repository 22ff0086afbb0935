#include "cli/session.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/fit_memory.hpp"
#include "cli/checkpoint_dir.hpp"
#include "cli/devices.hpp"
#include "cli/failure.hpp"
#include "cli/proposal.hpp"

namespace sluice::cli {

namespace {

volatile std::sig_atomic_t signal_received = 0;

void remember_signal(int number) {
  signal_received = number;
}

} // namespace

plan::plan plan_of(const recipe& what, const execution& how) {
  plan::plan_request wanted{.stages = how.stages, .micro_batches = what.micro_batches};
  if (how.chunks > 0)
    wanted.chunks = how.chunks;
  if (how.credits != "own" && how.credits != "auto")
    wanted.credits = parse_credits(how.credits);
  auto made = plan::make_plan(how.schedule, wanted);
  apply_proposal_options(made, how);
  return made;
}

actors::pipeline start_pipeline(const recipe& what, const execution& how,
                                const actors::batch_part& sample) {
  check_devices(how.device, how.stages);
  if (how.credits == "auto" && how.memory.empty())
    throw usage_error("--credits auto fills the stages' memory: say how much it is with --memory, "
                      "as in --memory 512MiB");
  try {
    auto plan = plan_of(what, how);
    std::vector<double> costs;
    if (how.cut.empty() && plan.parts > 1)
      costs = measure_layers(what, sample, how.threads);
    const auto schedule = make_lr_schedule(what);
    actors::pipeline_options options{
      .plan = std::move(plan),
      .layers = [what] { return make_layers(what); },
      .cut = how.cut,
      .layer_costs = std::move(costs),
      .recompute = how.recompute,
      .recompute_ranks = how.recompute_stages,
      .optimizer = make_optimizer(what),
      .learning_rate = [schedule](std::uint64_t step) { return schedule.at(step); },
      .clip = what.clip,
      .seed = what.seed,
      .threads = how.threads,
      .memory_bytes = how.memory.empty() ? 0 : parse_bytes(how.memory, "memory"),
      .deadline = std::chrono::milliseconds(static_cast<std::int64_t>(how.deadline * 1000))};
    if (how.credits == "auto")
      actors::fit_credits_to_memory(options, sample);
    return actors::pipeline(std::move(options));
  } catch (const std::invalid_argument& problem) {
    throw usage_error(problem.what());
  }
}

checkpoint find_checkpoint(const std::filesystem::path& place) {
  if (std::filesystem::is_regular_file(place))
    return load_checkpoint(place);
  checkpoint newest;
  const auto found = checkpoint_dir(place).newest(
    [&](const std::filesystem::path& file) { newest = load_checkpoint(file); });
  if (!found)
    throw usage_error(fmt::format("there is no checkpoint in {}: give the folder that a run wrote "
                                  "to with --checkpoint",
                                  place.string()));
  return newest;
}

sampler::sampler(const recipe& what, std::uint64_t seed, double temperature)
  : gpt_(what.model == "gpt"),
    length_(static_cast<std::size_t>(what.length)),
    temperature_(temperature),
    batches_(what),
    seed_(seed) {}

std::string sampler::continue_text(actors::pipeline& line, std::string text, std::size_t tokens) {
  if (text.empty())
    text = "\n";
  for (std::size_t i = 0; i < tokens; ++i) {
    const auto outputs = line.predict(batches_.prompt(text));
    const auto logits = outputs.at(0).at(0).span<float>();
    const auto classes = static_cast<std::size_t>(outputs[0][0].shape()[-1]);
    const auto row = gpt_ ? std::min(text.size(), length_) - 1 : 0;
    text.push_back(static_cast<char>(pick(logits.subspan(row * classes, classes))));
  }
  return text;
}

std::int32_t sampler::pick(std::span<const float> logits) {
  const auto likeliest = std::ranges::max_element(logits);
  if (temperature_ <= 0)
    return static_cast<std::int32_t>(likeliest - logits.begin());
  std::vector<double> weights(logits.size());
  std::ranges::transform(logits, weights.begin(), [&](float logit) {
    return std::exp((static_cast<double>(logit) - *likeliest) / temperature_);
  });
  std::mt19937_64 random(seed_ * 0x9E3779B97F4A7C15u + drawn_++);
  return std::discrete_distribution<std::int32_t>(weights.begin(), weights.end())(random);
}

std::string printable(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const bool shown = byte == '\n' || byte == '\t' || static_cast<unsigned char>(byte) >= 0x20;
    text += shown && byte != 0x7F ? std::string(1, byte)
                                  : fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

stop_signals::stop_signals() {
  signal_received = 0;
  struct sigaction once {};
  once.sa_handler = remember_signal;
  once.sa_flags = static_cast<int>(SA_RESETHAND); // The second one does what it always did.
  sigaction(SIGINT, &once, &before_int_);
  sigaction(SIGTERM, &once, &before_term_);
}

stop_signals::~stop_signals() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
}

int stop_signals::received() noexcept {
  return signal_received;
}

} // namespace sluice::cli
