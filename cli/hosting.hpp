#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/crew.hpp"
#include "cli/host_options.hpp"

namespace sluice::cli {

/// Calls the workers of a run together: at its start, and again after each fault.
class hosting {
public:
  /// Who hosts which stage.
  struct muster {
    std::shared_ptr<actors::crew> crew;
    std::vector<std::string> placement;   ///< by stage
    std::vector<std::string> absent = {}; ///< "host:port: why", of those that are left out
  };

  /// Errors: usage_error for options that do not go together.
  hosting(const host_options& options, int stages);

  /// All workers. Errors: usage_error that says which one cannot be had, and why.
  muster all() const;

  /// Those that can be had within the deadline, with the stages that are left with them: a stage
  /// whose worker is absent is given up.
  /// Errors: std::runtime_error when no stage is left.
  muster those_left() const;

private:
  struct called {
    std::shared_ptr<actors::crew> crew;
    std::vector<actors::roll_entry> roll;
  };
  called call() const;
  void check_slots(const std::vector<actors::roll_entry>& roll) const;

  host_options options_;
  actors::host_options meeting_;
  std::vector<std::string> workers_;   ///< each once
  std::vector<std::string> placement_; ///< by stage
};

} // namespace sluice::cli
