#include "cli/config_file.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace sluice::cli {

namespace {

/// Reads keys as those of one subcommand, where the library would want a [section] for it.
class subcommand_keys final : public CLI::ConfigTOML {
public:
  explicit subcommand_keys(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    auto items = CLI::ConfigTOML::from_config(input);
    const auto running = app_.get_subcommands();
    if (!running.empty())
      for (auto& item : items)
        if (item.parents.empty())
          item.parents.push_back(running.front()->get_name());
    return items;
  }

private:
  const CLI::App& app_;
};

} // namespace

void add_config_file(CLI::App& app) {
  app.set_config("--config", "", "TOML file with the same keys as the options");
  app.config_formatter(std::make_shared<subcommand_keys>(app));
  app.allow_config_extras(CLI::config_extras_mode::error);
  for (auto* each : app.get_subcommands([](CLI::App*) { return true; })) {
    each->fallthrough();
    each->allow_config_extras(CLI::config_extras_mode::error);
  }
}

} // namespace sluice::cli
