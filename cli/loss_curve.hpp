#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// What one step showed. Loss in nats a token.
struct loss_point {
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> held_out; ///< where the held-out text was looked at
  double lr = 0;
  double gradient_norm = 0;
  double seconds = 0; ///< wall time of the step
};

/// The course of a training run, for people (SVG) and for programs (CSV).
class loss_curve {
public:
  /// Steps in rising order.
  void add(const loss_point& point) { points_.push_back(point); }

  /// Forgets the steps after this one: they are made again.
  void go_back_to(std::int64_t step) {
    std::erase_if(points_, [step](const loss_point& each) { return each.step > step; });
  }

  const std::vector<loss_point>& points() const noexcept { return points_; }

  /// "step,loss,held_out,lr,gradient_norm,seconds" and a line a point. Every number reads back as
  /// the same one; held_out is empty where it was not measured.
  std::string csv() const;

  /// A line chart of the training and the held-out loss over the steps. However long the run, it
  /// draws a few hundred segments: of the points that share a column of pixels the lowest and the
  /// highest. A loss that is no number leaves a gap.
  std::string svg(std::string_view title) const;

  /// Both to files, atomically. Errors: as write_atomically().
  void write_csv(const std::filesystem::path& file) const;
  void write_svg(const std::filesystem::path& file, std::string_view title) const;

private:
  std::vector<loss_point> points_;
};

} // namespace sluice::cli
