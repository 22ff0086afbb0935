#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// Lines of text with aligned columns: the first flush left, the others, which hold numbers, flush
/// right; a rule below the headings. Each line ends with a newline and has no blanks before it.
class table {
public:
  explicit table(std::vector<std::string> headings);

  /// Errors: std::invalid_argument when it has more or fewer cells than there are headings.
  void add(std::vector<std::string> cells);

  std::string text() const;

private:
  std::vector<std::vector<std::string>> rows_; ///< the headings first
};

/// What a run reports of one stage.
struct stage_row {
  std::size_t stage = 0;
  std::string layers;               ///< as in "0-3"
  double busy = 0;                  ///< share of the time, 0 to 1
  double bubble = 0;                ///< the same
  std::size_t peak_activations = 0; ///< micro-batches held at once
  std::size_t peak_activation_bytes = 0;
  std::size_t peak_bytes = 0; ///< everything: weights, gradients, optimizer, activations, scratch
};

/// The table that ends a training run.
std::string stage_table(std::span<const stage_row> stages);

} // namespace sluice::cli
