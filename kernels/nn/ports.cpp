#include "kernels/nn/ports.hpp"

#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sluice::kernels::nn {

namespace {

std::string extents_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> texts;
  for (const auto extent : shape)
    texts.push_back(extent == port::any ? "any" : std::to_string(extent));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

bool matches(const std::vector<std::int64_t>& declared, const shape& given) {
  if (declared.size() != given.rank())
    return false;
  for (std::size_t i = 0; i < declared.size(); ++i)
    if (declared[i] != port::any && declared[i] != given.extents()[i])
      return false;
  return true;
}

} // namespace

std::string to_string(const port& of) {
  auto text = of.name;
  if (of.type)
    text += fmt::format(": {}", name(*of.type));
  if (of.shape)
    text += (of.type ? " " : ": ") + extents_of(*of.shape);
  return text;
}

void check_port(const std::string& module, const char* direction, const port& of,
                const tensor& given) {
  if (!given) {
    if (of.optional)
      return;
    throw std::invalid_argument(
      fmt::format("{}: the {} '{}' is absent", module, direction, of.name));
  }
  if (of.type && given.type() != *of.type)
    throw std::invalid_argument(fmt::format("{}: the {} '{}' has elements of {}, declared {}",
                                            module, direction, of.name, name(given.type()),
                                            name(*of.type)));
  if (of.shape && !matches(*of.shape, given.shape()))
    throw std::invalid_argument(fmt::format("{}: the {} '{}' has the shape {}, declared {}", module,
                                            direction, of.name, to_string(given.shape()),
                                            extents_of(*of.shape)));
}

bool fits(const port& given, const port& taken) {
  if (given.type && taken.type && *given.type != *taken.type)
    return false;
  if (!given.shape || !taken.shape)
    return true;
  if (given.shape->size() != taken.shape->size())
    return false;
  for (std::size_t i = 0; i < given.shape->size(); ++i) {
    const auto one = (*given.shape)[i];
    const auto other = (*taken.shape)[i];
    if (one != port::any && other != port::any && one != other)
      return false;
  }
  return true;
}

} // namespace sluice::kernels::nn
