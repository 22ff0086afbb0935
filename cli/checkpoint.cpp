#include "cli/checkpoint.hpp"

#include <ostream>
#include <streambuf>

#include <fmt/format.h>

#include "cli/atomic_file.hpp"
#include "cli/fingerprint.hpp"
#include "kernels/digest.hpp"
#include "kernels/safetensors.hpp"

namespace sluice::cli {

using kernels::named_tensor;

namespace {

constexpr auto format_name = "sluice-checkpoint-1";
constexpr auto checksum_key = "checksum";

/// State tensors stand beside their parameter: "optimizer.exp_avg/wte.weight".
std::string slot_name(const std::string& slot, const std::string& parameter) {
  return fmt::format("optimizer.{}/{}", slot, parameter);
}

std::vector<named_tensor> tensors_of(const actors::model_state& state) {
  std::vector<named_tensor> all;
  for (const auto& each : state.parameters) {
    all.push_back({each.name, each.tensors.front()});
    for (std::size_t i = 0; i < state.optimizer_slots.size(); ++i)
      all.push_back({slot_name(state.optimizer_slots[i], each.name), each.tensors.at(i + 1)});
  }
  return all;
}

/// Lets a stream write into an atomic file; what that says of a full disk comes out of the stream.
class file_buffer final : public std::streambuf {
public:
  explicit file_buffer(atomic_file& to) : to_(to) {}

private:
  std::streamsize xsputn(const char* from, std::streamsize count) override {
    to_.write(std::string_view(from, static_cast<std::size_t>(count)));
    return count;
  }
  int_type overflow(int_type byte) override {
    const char one = traits_type::to_char_type(byte);
    to_.write(std::string_view(&one, 1));
    return byte;
  }

  atomic_file& to_;
};

/// Over the rest of the metadata: a step or a recipe that is off by a bit must not pass for
/// another.
std::string checksum(kernels::safetensors_metadata of) {
  of.erase(checksum_key);
  std::string text;
  for (const auto& [key, value] : of)
    text += key + '\0' + value + '\0';
  return fmt::format("{:016x}", fingerprint(text));
}

std::string required(const kernels::safetensors_file& file, const std::filesystem::path& path,
                     const char* key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    throw std::runtime_error(fmt::format("{} is not a checkpoint of Sluice: its metadata has no "
                                         "'{}'",
                                         path.string(), key));
  return found->second;
}

} // namespace

std::string weights_digest(const actors::model_state& state) {
  std::vector<named_tensor> weights;
  for (const auto& each : state.parameters)
    weights.push_back({each.name, each.tensors.front()});
  return kernels::weights_sha256(weights);
}

void save_checkpoint(const std::filesystem::path& file, const checkpoint& what) {
  const auto tensors = tensors_of(*what.state);
  const nlohmann::json slots = what.state->optimizer_slots;
  kernels::safetensors_metadata metadata{
    {"format", format_name},         {"step", std::to_string(what.state->step)},
    {"recipe", what.recipe.dump()},  {"optimizer_slots", slots.dump()},
    {"text", what.text_fingerprint}, {"sha256", kernels::weights_sha256(tensors)}};
  metadata[checksum_key] = checksum(metadata);
  atomic_file target(file);
  file_buffer buffer(target);
  std::ostream stream(&buffer);
  stream.exceptions(std::ios::badbit); // passes on what the buffer throws
  kernels::write_safetensors(stream, file.string(), tensors, metadata);
  target.commit();
}

checkpoint load_checkpoint(const std::filesystem::path& path) {
  const kernels::safetensors_file file(path);
  const auto format = required(file, path, "format");
  if (format != format_name)
    throw std::runtime_error(fmt::format("{} has the format '{}', not '{}': it was written by "
                                         "another version",
                                         path.string(), format, format_name));
  if (required(file, path, checksum_key) != checksum(file.metadata()))
    throw std::runtime_error(
      fmt::format("{} is damaged: its header does not match its checksum", path.string()));
  kernels::stream stream(kernels::make_cpu_device());
  auto state = std::make_shared<actors::model_state>();
  checkpoint result;
  try {
    state->step = std::stoull(required(file, path, "step"));
    state->optimizer_slots = nlohmann::json::parse(required(file, path, "optimizer_slots"))
                               .get<std::vector<std::string>>();
    result.recipe = nlohmann::json::parse(required(file, path, "recipe"));
  } catch (const std::logic_error& problem) {
    throw std::runtime_error(fmt::format("{} is damaged: {}", path.string(), problem.what()));
  } catch (const nlohmann::json::exception& problem) {
    throw std::runtime_error(fmt::format("{} is damaged: {}", path.string(), problem.what()));
  }
  result.text_fingerprint = required(file, path, "text");
  for (const auto& entry : file.entries()) {
    if (entry.name.starts_with("optimizer."))
      continue;
    actors::named_state each{entry.name, {file.read(stream, entry.name)}};
    for (const auto& slot : state->optimizer_slots)
      each.tensors.push_back(file.read(stream, slot_name(slot, entry.name)));
    state->parameters.push_back(std::move(each));
  }
  std::ranges::sort(state->parameters, {}, &actors::named_state::name);
  if (kernels::weights_sha256(tensors_of(*state)) != required(file, path, "sha256"))
    throw std::runtime_error(
      fmt::format("{} is damaged: its contents do not match its digest", path.string()));
  result.state = std::move(state);
  return result;
}

} // namespace sluice::cli
