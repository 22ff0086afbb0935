#include "cli/toml.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

namespace sluice::cli {

namespace {

bool is_key_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

class reader {
public:
  explicit reader(std::string_view text) : text_(text) {}

  std::vector<toml_entry> all() {
    std::vector<toml_entry> entries;
    toml_entry below;
    for (skip_lines(); at_ < text_.size(); skip_lines()) {
      if (take('['))
        below = {.section = section_name(), .section_line = line_};
      else
        entries.push_back(entry(below));
      end_of_line();
    }
    return entries;
  }

private:
  [[noreturn]] void fail(const std::string& what) const { throw toml_error(line_, what); }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(char wanted) {
    if (peek() != wanted)
      return false;
    ++at_;
    return true;
  }

  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r')
      ++at_;
    if (peek() == '#')
      at_ = std::min(text_.find('\n', at_), text_.size());
  }

  void skip_lines() {
    for (skip_blanks(); take('\n'); skip_blanks())
      ++line_;
  }

  void end_of_line() {
    skip_blanks();
    if (at_ < text_.size() && peek() != '\n')
      fail(fmt::format("'{}' follows where the line should end", rest_of_line()));
  }

  std::string rest_of_line() const {
    auto rest = text_.substr(at_, text_.find('\n', at_) - at_);
    return std::string(rest.substr(0, rest.find_last_not_of(" \t\r") + 1));
  }

  std::string name(const char* what) {
    skip_blanks();
    if (peek() == '"' || peek() == '\'')
      return quoted();
    const auto begin = at_;
    while (is_key_letter(peek()))
      ++at_;
    if (at_ == begin)
      fail(fmt::format("'{}' where {} should be", rest_of_line(), what));
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string section_name() {
    auto found = name("a section's name");
    skip_blanks();
    if (!take(']'))
      fail(fmt::format("the section [{} is not closed by ]", found));
    return found;
  }

  toml_entry entry(toml_entry made) {
    made.line = line_;
    made.key = name("a key");
    skip_blanks();
    if (!take('='))
      fail(fmt::format("'{}' has no value; write {} = VALUE", made.key, made.key));
    skip_blanks();
    made.is_array = take('[');
    if (made.is_array)
      made.values = array();
    else
      made.values.push_back(value());
    return made;
  }

  std::vector<std::string> array() {
    std::vector<std::string> values;
    for (skip_lines(); !take(']'); skip_lines()) {
      values.push_back(value());
      skip_lines();
      if (!take(',') && peek() != ']')
        fail("a list is not closed by ]");
    }
    return values;
  }

  std::string value() {
    if (peek() == '"' || peek() == '\'')
      return quoted();
    const auto begin = at_;
    while (at_ < text_.size() && std::string_view(",]#\n\r \t").find(peek()) == std::string::npos)
      ++at_;
    std::string word(text_.substr(begin, at_ - begin));
    if (word.empty())
      fail("a value is missing");
    if (word == "true" || word == "false")
      return word;
    std::string digits;
    std::ranges::remove_copy(word, std::back_inserter(digits), '_');
    double number = 0;
    const auto* first = digits.data() + (digits.front() == '+' ? 1 : 0);
    const auto* last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(first, last, number);
    if (error != std::errc{} || end != last)
      fail(fmt::format("{} is no value; text stands in quotes: \"{}\"", word, word));
    return {first, last};
  }

  std::string quoted() {
    const char quote = text_[at_++];
    std::string value;
    while (!take(quote)) {
      if (at_ >= text_.size() || peek() == '\n')
        fail(fmt::format("a text is not closed by {}", quote));
      const char c = text_[at_++];
      value += c == '\\' && quote == '"' ? escaped() : c;
    }
    return value;
  }

  char escaped() {
    constexpr std::string_view letters = "\"\\ntr";
    constexpr std::string_view meanings = "\"\\\n\t\r";
    const auto found = letters.find(peek());
    if (at_ >= text_.size())
      fail("a text ends in \\ and is not closed");
    if (found == std::string_view::npos)
      fail(fmt::format("\\{} in a text; use '...', where \\ means itself", peek()));
    ++at_;
    return meanings[found];
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

} // namespace

std::vector<toml_entry> read_toml(std::string_view text) {
  return reader(text).all();
}

} // namespace sluice::cli
