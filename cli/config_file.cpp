#include "cli/config_file.hpp"

#include <istream>
#include <iterator>
#include <set>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "cli/failure.hpp"
#include "cli/option_checks.hpp"
#include "cli/toml.hpp"

namespace sluice::cli {

namespace {

/// Gives the option parser the keys of the subcommand that runs, checked one by one: here the line
/// is known that a message should name.
class subcommand_keys final : public CLI::ConfigTOML {
public:
  explicit subcommand_keys(CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const auto file = app_.get_config_ptr()->as<std::string>();
    const std::string text(std::istreambuf_iterator<char>(input), {});
    try {
      return checked(read_toml(text));
    } catch (const toml_error& problem) {
      throw usage_error(fmt::format("{}:{}: {}", file, problem.line, problem.what()));
    }
  }

private:
  std::vector<CLI::ConfigItem> checked(const std::vector<toml_entry>& entries) const {
    const auto running = app_.get_subcommands();
    std::vector<CLI::ConfigItem> items;
    std::set<std::pair<const CLI::App*, std::string>> seen;
    for (const auto& entry : entries) {
      auto* section = section_of(entry, running);
      check(entry, *section);
      if (!seen.emplace(section, entry.key).second)
        throw toml_error(entry.line, fmt::format("'{}' is there twice", entry.key));
      if (!running.empty() && section == running.front())
        items.push_back({{section->get_name()}, entry.key, entry.values});
    }
    return items;
  }

  CLI::App* section_of(const toml_entry& entry, const std::vector<CLI::App*>& running) const {
    if (entry.section.empty() && !running.empty())
      return running.front();
    try {
      return app_.get_subcommand(entry.section);
    } catch (const CLI::OptionNotFound&) {
      throw toml_error(entry.section_line,
                       fmt::format("there is no section [{}]: sections are called as "
                                   "the subcommands",
                                   entry.section));
    }
  }

  static void check(const toml_entry& entry, CLI::App& section) {
    auto* option = section.get_option_no_throw("--" + entry.key);
    if (option == nullptr || !option->get_configurable())
      throw toml_error(entry.line,
                       fmt::format("unknown key '{}'{}; keys are the long options that "
                                   "`sluice {} --help` lists",
                                   entry.key, suggestion(entry.key, option_names(section)),
                                   section.get_name()));
    const bool is_flag = option->get_expected_min() == 0;
    if (is_flag && (entry.is_array || (entry.values[0] != "true" && entry.values[0] != "false")))
      throw toml_error(entry.line, fmt::format("{}: write true or false", entry.key));
    if (entry.is_array && option->get_expected_max() <= 1)
      throw toml_error(entry.line, fmt::format("{}: takes one value, no list", entry.key));
    for (const auto& value : entry.values)
      check_value(entry, *option, value);
  }

  static void check_value(const toml_entry& entry, CLI::Option& option, std::string value) {
    for (int i = 0;; ++i) {
      const CLI::Validator* validator = nullptr;
      try {
        validator = option.get_validator(i);
      } catch (const CLI::OptionNotFound&) {
        return;
      }
      if (const auto problem = (*validator)(value); !problem.empty())
        throw toml_error(entry.line, fmt::format("{}: {}", entry.key, problem));
    }
  }

  CLI::App& app_;
};

} // namespace

void add_config_file(CLI::App& app) {
  app.set_config("--config", "", "TOML file with the same keys as the long options [none]")
    ->type_name("FILE");
  app.config_formatter(std::make_shared<subcommand_keys>(app));
  app.allow_config_extras(CLI::config_extras_mode::error);
  for (auto* each : app.get_subcommands([](CLI::App*) { return true; })) {
    each->fallthrough();
    each->footer(each->get_footer() + "\n\n--config FILE: a TOML file with these options as keys");
    each->allow_config_extras(CLI::config_extras_mode::error);
  }
}

} // namespace sluice::cli
