#pragma once

#include <memory>
#include <string>

#include "bench/gpt_case.hpp"

namespace sluice::bench {

/// PyTorch in a process of its own: eager mode, float32, the network and update of a gpt_case.
class torch_step {
public:
  /// python: a program, on the search path or by its path.
  torch_step(const std::string& python, const gpt_case& of);
  ~torch_step();

  /// Whether that Python has a torch.
  bool here() const noexcept { return !version_.empty(); }
  const std::string& version() const noexcept { return version_; }

  /// Runs one step on so many threads. Units: seconds. Errors: std::runtime_error.
  double seconds(unsigned threads);

private:
  struct process;
  std::unique_ptr<process> process_;
  std::string version_;
};

} // namespace sluice::bench
