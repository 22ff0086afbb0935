#include "cli/loss_curve.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "cli/atomic_file.hpp"

namespace sluice::cli {

namespace {

// The picture, in pixels: the plot and the room around it for ticks, labels and the title.
constexpr double picture_width = 800;
constexpr double picture_height = 450;
constexpr double left = 70;
constexpr double right = picture_width - 40;
constexpr double top = 45;
constexpr double bottom = picture_height - 60;

constexpr std::string_view training_colour = "#1f5fa8";
constexpr std::string_view held_out_colour = "#c8501e";

/// A stretch of numbers along one side of the plot, with round numbers marked.
struct axis {
  double low = 0;
  double high = 1;
  double tick = 0.2; ///< between marks

  double share(double value) const { return (value - low) / (high - low); }
  double first_mark() const { return std::ceil(low / tick - 1e-9) * tick; }
};

/// About `marks` marks at 1, 2 or 5 times a power of ten.
double round_tick(double range, double marks) {
  const double rough = range / marks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power)
      return factor * power;
  return 10 * power;
}

/// An axis of the steps: whole numbers, from the first to the last.
axis step_axis(const std::vector<loss_point>& points) {
  const auto low = points.empty() ? 0.0 : static_cast<double>(points.front().step);
  const auto high = points.empty() ? 1.0 : static_cast<double>(points.back().step);
  const auto range = std::max(high - low, 1.0);
  return {low, low + range, std::max(round_tick(range, 8), 1.0)};
}

/// An axis that all losses lie on, ending at marks.
axis loss_axis(const std::vector<loss_point>& points) {
  double low = INFINITY;
  double high = -INFINITY;
  const auto widen = [&](double loss) {
    if (std::isfinite(loss)) {
      low = std::min(low, loss);
      high = std::max(high, loss);
    }
  };
  for (const auto& point : points) {
    widen(point.loss);
    widen(point.held_out.value_or(point.loss));
  }
  if (low > high)
    low = high = 0;
  // Far-off losses are shown by their size alone; equal ones still need an axis.
  const double range = std::max({high - low, 1e-6 * std::abs(high), 1e-3});
  const double tick = round_tick(range, 6);
  const double floor = std::floor(low / tick) * tick;
  return {floor, std::max(std::ceil(high / tick) * tick, floor + tick), tick};
}

double x_of(const axis& steps, double step) {
  return left + (right - left) * steps.share(step);
}
double y_of(const axis& losses, double loss) {
  return bottom - (bottom - top) * losses.share(loss);
}

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
    case '<':
      escaped += "&lt;";
      break;
    case '&':
      escaped += "&amp;";
      break;
    default:
      escaped += c;
    }
  }
  return escaped;
}

void draw_axes(std::string& out, const axis& steps, const axis& losses) {
  auto to = std::back_inserter(out);
  const auto digits = std::max(0, static_cast<int>(-std::floor(std::log10(losses.tick) + 1e-9)));
  for (double mark = losses.first_mark(); mark <= losses.high + losses.tick / 2;
       mark += losses.tick) {
    const double y = y_of(losses, mark);
    fmt::format_to(to, "<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' stroke='#ddd'/>\n", left,
                   right, y, y);
    fmt::format_to(to, "<text x='{}' y='{:.1f}' text-anchor='end'>{:.{}f}</text>\n", left - 8,
                   y + 4, mark, digits);
  }
  for (double mark = steps.first_mark(); mark <= steps.high; mark += steps.tick) {
    const double x = x_of(steps, mark);
    fmt::format_to(to, "<line x1='{:.1f}' x2='{:.1f}' y1='{}' y2='{}' stroke='#333'/>\n", x, x,
                   bottom, bottom + 5);
    fmt::format_to(to, "<text x='{:.1f}' y='{}' text-anchor='middle'>{:.0f}</text>\n", x,
                   bottom + 20, mark);
  }
  fmt::format_to(to, "<path d='M{} {}V{}H{}' fill='none' stroke='#333'/>\n", left, top, bottom,
                 right);
  fmt::format_to(to, "<text x='{}' y='{}' text-anchor='middle'>step</text>\n", (left + right) / 2,
                 picture_height - 18);
  fmt::format_to(to,
                 "<text transform='translate(20 {}) rotate(-90)' text-anchor='middle'>"
                 "loss (nats per token)</text>\n",
                 (top + bottom) / 2);
}

/// One line of the chart: the points in one column of pixels become their lowest and highest.
class line {
public:
  void add(double x, double y) {
    if (!std::isfinite(y)) {
      flush();
      next_ = 'M';
      return;
    }
    if (points_ > 0 && std::floor(x) != std::floor(x_))
      flush();
    if (points_++ == 0)
      first_ = low_ = high_ = y;
    low_ = std::min(low_, y);
    high_ = std::max(high_, y);
    x_ = x;
  }

  std::string path() {
    flush();
    return path_;
  }

private:
  void flush() {
    if (points_ == 0)
      return;
    put(first_);
    if (low_ != first_)
      put(low_);
    if (high_ != first_)
      put(high_);
    points_ = 0;
  }

  void put(double y) {
    // h0: a point that stays alone is a dot, by its round ends.
    fmt::format_to(std::back_inserter(path_), "{}{:.1f} {:.1f}{}", next_, x_, y,
                   next_ == 'M' ? "h0" : "");
    next_ = 'L';
  }

  std::string path_;
  char next_ = 'M';
  std::size_t points_ = 0;
  double x_ = 0, first_ = 0, low_ = 0, high_ = 0;
};

/// A short stroke and a name, in the plot's upper right corner.
void draw_legend(std::string& out, int row, std::string_view name, std::string_view colour) {
  const double x = right - 130;
  const double y = top + 15 + 20 * row;
  fmt::format_to(std::back_inserter(out),
                 "<line x1='{}' x2='{}' y1='{}' y2='{}' stroke='{}' stroke-width='2'/>"
                 "<text x='{}' y='{}'>{}</text>\n",
                 x, x + 30, y, y, colour, x + 38, y + 4, name);
}

void draw_lines(std::string& out, const std::vector<loss_point>& points, const axis& steps,
                const axis& losses) {
  auto to = std::back_inserter(out);
  line training;
  line held_out;
  std::string dots;
  for (const auto& point : points) {
    const double x = x_of(steps, static_cast<double>(point.step));
    training.add(x, y_of(losses, point.loss));
    if (!point.held_out)
      continue;
    const double y = y_of(losses, *point.held_out);
    held_out.add(x, y);
    if (std::isfinite(y))
      fmt::format_to(std::back_inserter(dots), "M{:.1f} {:.1f}h0", x, y);
  }
  const auto draw = [&](const std::string& path, std::string_view colour, double width) {
    fmt::format_to(to,
                   "<path d='{}' fill='none' stroke='{}' stroke-width='{}' "
                   "stroke-linejoin='round' stroke-linecap='round'/>\n",
                   path, colour, width);
  };
  draw(training.path(), training_colour, 1.5);
  draw_legend(out, 0, "training", training_colour);
  if (dots.empty())
    return;
  draw(held_out.path(), held_out_colour, 2);
  draw(dots, held_out_colour, 6); // a round dot for each measurement, one alone too
  draw_legend(out, 1, "held out", held_out_colour);
}

} // namespace

std::string loss_curve::csv() const {
  std::string text = "step,loss,held_out,lr,gradient_norm,seconds\n";
  for (const auto& point : points_)
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{}\n", point.step, point.loss,
                   point.held_out ? fmt::format("{}", *point.held_out) : "", point.lr,
                   point.gradient_norm, point.seconds);
  return text;
}

std::string loss_curve::svg(std::string_view title) const {
  const auto steps = step_axis(points_);
  const auto losses = loss_axis(points_);
  auto out = fmt::format("<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' "
                         "viewBox='0 0 {0} {1}' font-family='sans-serif' font-size='13'>\n"
                         "<rect width='100%' height='100%' fill='white'/>\n"
                         "<text x='{2}' y='26' font-size='16'>{3}</text>\n",
                         picture_width, picture_height, left, escape(title));
  draw_axes(out, steps, losses);
  draw_lines(out, points_, steps, losses);
  out += "</svg>\n";
  return out;
}

void loss_curve::write_csv(const std::filesystem::path& file) const {
  write_atomically(file, csv());
}

void loss_curve::write_svg(const std::filesystem::path& file, std::string_view title) const {
  write_atomically(file, svg(title));
}

} // namespace sluice::cli
