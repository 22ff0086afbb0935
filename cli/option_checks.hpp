#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace sluice::cli {

// Checks for option values, on the command line and in config files. Each says what it wants:
// "'abc' is no whole number from 1 on".

CLI::Validator whole_number(std::int64_t least = 0, std::int64_t most = INT32_MAX);
CLI::Validator seed_number(); ///< any unsigned 64-bit number
CLI::Validator number_from_zero();
CLI::Validator positive_number();
CLI::Validator share_below_one();
CLI::Validator one_of(std::initializer_list<std::string> names);
CLI::Validator size_text(); ///< "24GiB", as parse_bytes() reads it

/// "24GiB", "512MB" or plain bytes. Errors: usage_error.
std::size_t parse_bytes(const std::string& text, const std::string& option);

/// The name closest to what was typed, as ", did you mean 'layers'?"; empty if none is near.
std::string suggestion(std::string_view typed, const std::vector<std::string>& names);

/// The long options of a subcommand, without dashes.
std::vector<std::string> option_names(const CLI::App& of);

/// Help with a column of values ("--layers N") and the default after what an option means ("[4]").
std::shared_ptr<CLI::Formatter> help_format();

} // namespace sluice::cli
