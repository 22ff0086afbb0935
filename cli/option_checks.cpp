#include "cli/option_checks.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/failure.hpp"

namespace sluice::cli {

namespace {

/// The number that the whole of a text is.
template <class Number>
std::optional<Number> read(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

template <class Accept>
CLI::Validator real_number(const char* wanted, Accept accept) {
  return {[wanted, accept](std::string& text) -> std::string {
            const auto value = read<double>(text);
            if (value && std::isfinite(*value) && accept(*value))
              return "";
            return fmt::format("'{}' is no {}", text, wanted);
          },
          ""};
}

struct unit {
  std::string_view name; ///< in small letters
  double bytes;
};
constexpr std::array units{unit{"", 1},         unit{"b", 1},        unit{"kb", 1e3},
                           unit{"mb", 1e6},     unit{"gb", 1e9},     unit{"tb", 1e12},
                           unit{"kib", 0x1p10}, unit{"mib", 0x1p20}, unit{"gib", 0x1p30},
                           unit{"tib", 0x1p40}};

std::optional<std::size_t> read_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{})
    return std::nullopt;
  std::string name(end, text.data() + text.size());
  std::erase(name, ' ');
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto found = std::ranges::find(units, name, &unit::name);
  if (found == units.end() || !(number * found->bytes >= 1) || number * found->bytes >= 0x1p63)
    return std::nullopt;
  return static_cast<std::size_t>(number * found->bytes);
}

std::string no_size(std::string_view text) {
  return fmt::format("'{}' is no size; write bytes from 1 on, or a number with KiB, MiB or GiB "
                     "(KB, MB, GB: powers of 1000)",
                     text);
}

/// How many letters must be put in, taken out or replaced to make one of the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const auto replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

class value_formatter final : public CLI::Formatter {
public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_expected_max() == 0)
      return ""; // a flag
    return fmt::format(" {}{}", option->get_type_name(),
                       option->get_expected_max() > 1 ? "..." : "");
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const auto standard = option->get_default_str();
    if (option->get_required())
      return option->get_description() + " (required)";
    if (option->get_expected_max() == 0 || standard.empty() || standard == "[]")
      return option->get_description();
    return fmt::format("{} [{}]", option->get_description(), standard);
  }
};

} // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return {[least, most](std::string& text) -> std::string {
            const auto value = read<std::int64_t>(text);
            if (value && *value >= least && *value <= most)
              return "";
            return fmt::format("'{}' is no whole number from {} to {}", text, least, most);
          },
          ""};
}

CLI::Validator seed_number() {
  return {[](std::string& text) -> std::string {
            return read<std::uint64_t>(text)
                   ? ""
                   : fmt::format("'{}' is no whole number from 0 to {}", text, UINT64_MAX);
          },
          ""};
}

CLI::Validator number_from_zero() {
  return real_number("number from 0 on", [](double value) { return value >= 0; });
}

CLI::Validator positive_number() {
  return real_number("number above 0", [](double value) { return value > 0; });
}

CLI::Validator share_below_one() {
  return real_number("number from 0 to below 1",
                     [](double value) { return value >= 0 && value < 1; });
}

CLI::Validator one_of(std::initializer_list<std::string> names) {
  return {[names = std::vector<std::string>(names)](std::string& text) -> std::string {
            if (std::ranges::count(names, text) > 0)
              return "";
            return fmt::format("there is no '{}'; there are {}", text, fmt::join(names, ", "));
          },
          ""};
}

CLI::Validator size_text() {
  return {[](std::string& text) { return read_bytes(text) ? "" : no_size(text); }, ""};
}

std::size_t parse_bytes(const std::string& text, const std::string& option) {
  if (const auto bytes = read_bytes(text))
    return *bytes;
  throw usage_error(fmt::format("--{}: {}", option, no_size(text)));
}

std::string suggestion(std::string_view typed, const std::vector<std::string>& names) {
  const auto distance = [&](const std::string& name) { return edit_distance(typed, name); };
  const auto nearest = std::ranges::min_element(names, {}, distance);
  if (nearest == names.end() || distance(*nearest) > 1 + typed.size() / 4)
    return "";
  return fmt::format(", did you mean '{}'?", *nearest);
}

std::vector<std::string> option_names(const CLI::App& of) {
  std::vector<std::string> names;
  for (const auto* option : of.get_options())
    if (option->get_configurable())
      for (const auto& name : option->get_lnames())
        names.push_back(name);
  return names;
}

std::shared_ptr<CLI::Formatter> help_format() {
  auto format = std::make_shared<value_formatter>();
  format->column_width(26);
  return format;
}

} // namespace sluice::cli
