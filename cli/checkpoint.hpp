#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "actors/trainer.hpp"

namespace sluice::cli {

/// A checkpoint: one safetensors file with weights, optimizer state and, in its metadata, the run's
/// recipe, its step, the text's fingerprint and a digest over all of it.
struct checkpoint {
  std::shared_ptr<const actors::model_state> state;
  nlohmann::json recipe;
  std::string text_fingerprint;
};

/// Complete or absent: written under a temporary name, forced to disk, renamed.
/// Errors: std::runtime_error with path and reason; an older file of that name is untouched then.
void save_checkpoint(const std::filesystem::path& file, const checkpoint& what);

/// Errors: std::runtime_error for a file that is damaged, cut short, or no checkpoint of Sluice.
checkpoint load_checkpoint(const std::filesystem::path& file);

/// The digest of a state's weights alone, as the command reports it.
std::string weights_digest(const actors::model_state& state);

} // namespace sluice::cli
