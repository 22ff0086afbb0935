#include "kernels/nn/wire.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/nn/wired_layer.hpp"

namespace sluice::kernels::nn {

namespace {

/// A value that passes between layers: given by one (or the batch), taken by some.
struct value {
  port given;
  std::string giver;                     ///< as an error names it
  std::optional<std::size_t> layer = {}; ///< that gives it; none: the batch
  std::size_t output = 0;                ///< of that layer
  std::size_t last_taker = 0;
  bool taken = false;
  bool has_gradient = false; ///< a parameter lies behind it

  bool lives_before(std::size_t at) const {
    return taken && (!layer || *layer < at) && last_taker >= at;
  }
};

/// Finds out which value each layer means, and from that the lists between layers.
class wirer {
public:
  wirer(std::vector<module_ptr> layers, const model_values& values,
        std::span<const std::size_t> part_ends)
    : layers_(std::move(layers)),
      values_(values),
      ends_(part_ends.begin(), part_ends.end()) {
    if (ends_.empty() || ends_.back() != layers_.size())
      throw std::invalid_argument("wire: the parts do not end with the layers");
    if (values_.inputs.empty())
      throw std::invalid_argument("the model has no inputs: name them in values");
  }

  wired_model make() && {
    for (const auto& name : values_.inputs)
      define({.name = name, .optional = true}, "the batch", std::nullopt, 0);
    main_ = values_.inputs.front();
    for (std::size_t i = 0; i < layers_.size(); ++i)
      read(i);
    check_all_taken();
    wired_model made;
    for (std::size_t i = 0; i < layers_.size(); ++i)
      finish(i, made);
    note_leaps(made);
    if (std::ranges::count(made.losses, 0u) == static_cast<std::ptrdiff_t>(made.losses.size()))
      throw std::invalid_argument("no layer of the model gives a loss");
    return made;
  }

private:
  std::size_t part_of(std::size_t layer) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(ends_, layer) - ends_.begin());
  }

  void define(port given, std::string giver, std::optional<std::size_t> layer, std::size_t output) {
    current_[given.name] = all_.size();
    all_.push_back({std::move(given), std::move(giver), layer, output});
    all_.back().has_gradient = layer && trains(*layer);
  }

  /// Whether the layer or one before it, on any way to it, has parameters.
  bool trains(std::size_t layer) const {
    return !layers_[layer]->parameters().empty()
        || std::ranges::any_of(
          meant_[layer], [&](const auto& value) { return value && all_[*value].has_gradient; });
  }

  /// The ports of a layer that declares none: the main value and, in the last part, the targets.
  module_ports default_ports(std::size_t layer) const {
    module_ports made{{{.name = main_, .optional = true}}, {{.name = main_}}};
    if (part_of(layer) + 1 == ends_.size())
      for (const auto& target : values_.targets)
        made.takes.push_back({.name = target, .optional = true});
    if (layer + 1 == layers_.size())
      made.gives = {{.name = "loss", .loss = true}};
    return made;
  }

  void read(std::size_t layer) {
    auto& how = how_.emplace_back();
    const auto* declared = layers_[layer]->ports();
    how.declared = declared != nullptr && !(declared->takes.empty() && declared->gives.empty());
    how.ports = how.declared ? *declared : default_ports(layer);
    how.model_end = layer + 1 == layers_.size();
    meant_.emplace_back();
    for (const auto& wanted : how.ports.takes)
      take(layer, wanted);
    const auto& gives = how.ports.gives;
    how.own_losses = static_cast<std::size_t>(std::ranges::count(gives, true, &port::loss));
    for (std::size_t i = 0; i < gives.size(); ++i) {
      if (gives[i].loss != (i < how.own_losses))
        throw std::invalid_argument(
          fmt::format("{}: losses come first among what a module gives", layers_[layer]->name()));
      if (!gives[i].loss)
        define(gives[i], layers_[layer]->name(), layer, i);
    }
    if (how.own_losses < gives.size())
      main_ = gives[how.own_losses].name;
  }

  void take(std::size_t layer, const port& wanted) {
    const auto& name = layers_[layer]->name();
    auto& from = how_[layer].takes.emplace_back();
    auto& meant = meant_[layer].emplace_back();
    if (const auto target = std::ranges::find(values_.targets, wanted.name);
        target != values_.targets.end() && !current_.contains(wanted.name)) {
      if (part_of(layer) + 1 != ends_.size())
        throw std::invalid_argument(
          fmt::format("{} (part {} of {}) takes the target '{}', which reaches the last part only: "
                      "give it among the inputs",
                      name, part_of(layer), ends_.size(), wanted.name));
      from.target = true;
      from.at = static_cast<std::size_t>(target - values_.targets.begin());
      return;
    }
    const auto found = current_.find(wanted.name);
    if (found == current_.end()) {
      if (wanted.optional)
        return;
      throw std::invalid_argument(
        fmt::format("{} takes '{}', which no layer before it and no input of the model gives", name,
                    wanted.name));
    }
    auto& value = all_[found->second];
    if (!fits(value.given, wanted))
      throw std::invalid_argument(fmt::format("{} gives '{}', but {} takes '{}'", value.giver,
                                              to_string(value.given), name, to_string(wanted)));
    value.taken = true;
    value.last_taker = layer;
    meant = found->second;
    if (!value.has_gradient)
      layers_[layer]->skip_input_gradient(how_[layer].takes.size() - 1);
  }

  void check_all_taken() const {
    for (const auto& each : all_)
      if (!each.taken && !(each.layer && *each.layer + 1 == layers_.size()))
        throw std::invalid_argument(
          fmt::format("{} gives '{}', which no later layer takes", each.giver, each.given.name));
  }

  std::vector<std::size_t> living_before(std::size_t layer) const {
    std::vector<std::size_t> living;
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (all_[i].lives_before(layer))
        living.push_back(i);
    return living;
  }

  void finish(std::size_t layer, wired_model& made) {
    auto& how = how_[layer];
    const auto here = living_before(layer);
    const auto at = [&](std::size_t value) {
      return static_cast<std::size_t>(std::ranges::find(here, value) - here.begin());
    };
    how.values_in = here.size();
    how.targets = part_of(layer) + 1 == ends_.size() ? values_.targets.size() : 0;
    std::set<std::size_t> given_away;
    for (auto i = how.takes.size(); i-- > 0;) // the last of several takes gets the handle
      if (const auto value = meant_[layer][i]) {
        how.takes[i].at = at(*value);
        how.takes[i].last_use =
          all_[*value].last_taker == layer && given_away.insert(*value).second;
      }
    if (!how.model_end)
      for (const auto value : living_before(layer + 1)) {
        auto& to = how.values_out.emplace_back();
        if (all_[value].layer == layer)
          to.output = all_[value].output;
        else
          to.value = at(value);
      }
    const auto part = part_of(layer);
    for (auto i = part == 0 ? 0 : ends_[part - 1]; i < layer; ++i)
      how.losses_before += how_[i].own_losses;
    made.losses.push_back(how.own_losses);
    made.layers.push_back(std::make_unique<wired_layer>(std::move(layers_[layer]), how));
  }

  void note_leaps(wired_model& made) const {
    std::set<std::pair<std::size_t, std::size_t>> leaps;
    for (std::size_t layer = 0; layer < meant_.size(); ++layer)
      for (const auto value : meant_[layer])
        if (value && part_of(all_[*value].layer.value_or(0)) + 1 < part_of(layer))
          leaps.insert({part_of(all_[*value].layer.value_or(0)), part_of(layer)});
    made.leaps.assign(leaps.begin(), leaps.end());
  }

  std::vector<module_ptr> layers_;
  const model_values& values_;
  std::vector<std::size_t> ends_;
  std::vector<value> all_;
  std::map<std::string, std::size_t> current_; ///< what a name means by now
  std::string main_;
  std::vector<wiring> how_;                                    ///< by layer
  std::vector<std::vector<std::optional<std::size_t>>> meant_; ///< by layer and take
};

} // namespace

bool has_ports(std::span<const module_ptr> layers) {
  return std::ranges::any_of(layers, [](const auto& each) { return each->ports() != nullptr; });
}

wired_model wire(std::vector<module_ptr> layers, const model_values& values,
                 std::span<const std::size_t> part_ends) {
  return wirer(std::move(layers), values, part_ends).make();
}

} // namespace sluice::kernels::nn
