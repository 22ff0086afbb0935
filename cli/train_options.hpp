#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

#include "actors/recipe.hpp"
#include "cli/host_options.hpp"
#include "cli/option_checks.hpp"

namespace sluice::cli {

/// What a run trains: everything that decides its results, so that a checkpoint keeps it.
struct recipe {
  std::string model = "gpt";
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t length = 128;
  double dropout = 0.0;
  bool tied = true;
  std::string precision = "float32";
  std::int64_t micro_batch_size = 4;
  int micro_batches = 8;
  std::string optimizer = "adamw";
  double lr = 2e-3;
  std::uint64_t warm_up = 50;
  double weight_decay = 0.1;
  double clip = 1.0;
  std::uint64_t seed = 1;
  std::uint64_t steps = 300;

  std::int64_t batch_sequences() const { return micro_batch_size * micro_batches; }
};

/// Where and how it runs: decides nothing of the results.
struct execution {
  int stages = 4;
  std::string schedule = "1f1b";
  int chunks = 0;               ///< a stage; 0: the schedule's own
  std::string credits = "own";  ///< of every stage: the schedule's, a number, or "auto"
  std::vector<std::size_t> cut; ///< layers of each part, by hand; empty: by measured cost
  bool recompute = false;
  std::vector<std::int32_t> recompute_stages; ///< only these; empty: as `recompute` says
  std::vector<std::int32_t> take_in; ///< warm-up level of each stage; empty: the schedule's
  int threads = 1;
  std::string device = "cpu";
  std::string memory;   ///< limit of each stage, "24GiB"; empty: none
  double deadline = 60; ///< seconds
};

struct train_options {
  recipe what;
  execution how;
  host_options hosts;
  std::vector<std::filesystem::path> data;
  std::filesystem::path checkpoint;
  std::uint64_t checkpoint_every = 100;
  std::size_t keep = 3;
  std::filesystem::path resume;
  std::filesystem::path report;
  std::filesystem::path trace;
  std::string json;
  std::uint64_t evaluate_every = 50;
  std::size_t evaluate_sequences = 64;
  std::size_t sample_bytes = 300;
};

/// Adds the options to a subcommand.
void add_recipe_options(CLI::App& to, recipe& what);
void add_execution_options(CLI::App& to, execution& how);

/// A recipe as the JSON that checkpoints carry.
nlohmann::json to_json(const recipe& what);

/// Takes from a checkpoint's recipe what the command line does not give. Errors: usage_error when
/// the command line gives another network than the checkpoint has (with both values).
void adopt(recipe& what, const nlohmann::json& saved, const CLI::App& given);

/// The number of `--credits N`. Errors: usage_error.
std::int32_t parse_credits(const std::string& text);

} // namespace sluice::cli
