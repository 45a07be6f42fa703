#include "eval/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace quire::eval {
namespace {

constexpr double kWidth = 760, kHeight = 420;
constexpr double kLeft = 70, kRight = 190, kTop = 36, kBottom = 52;  // margins around the axes
constexpr int kTicks = 6;                                            // about so many on an axis

// Eight colours that stay apart for colour-blind readers (Okabe and Ito 2008).
constexpr const char* kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                    "#E69F00", "#56B4E9", "#000000", "#8C6D31"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += letter;
    }
  }
  return out;
}

std::string text_of(double value, const char* format) {
  char buffer[48];
  std::snprintf(buffer, sizeof(buffer), format, value);
  return buffer;
}

std::string pixels(double value) {
  return text_of(value, "%.1f");
}

bool finite(const PlotPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y);
}

bool finite(const Interval& interval) {
  return std::isfinite(interval.low) && std::isfinite(interval.high);
}

// One axis: values [low, high] onto pixels [from, to], a tick every `step`.
struct Axis {
  double low = 0, high = 1, step = 0.2, from = 0, to = 1;

  double place(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// The smallest of 1, 2, 2.5, 5 x a power of ten that makes at most kTicks ticks.
double round_step(double range) {
  const double raw = range / kTicks, power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

Axis axis_of(double low, double high, double from, double to) {
  if (low > high) low = 0, high = 1;  // no point at all
  if (high - low < 1e-12 * std::max(std::fabs(high), 1.0)) high = low + 1;
  const double step = round_step(high - low);
  return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step, step, from,
          to};
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::string tick_text(double value, double step, bool percent) {
  const double scale = percent ? 100 : 1;
  const int decimals =
      std::clamp(static_cast<int>(std::ceil(-std::log10(step * scale) - 1e-9)), 0, 6);
  const bool half =
      std::fabs(std::remainder(step * scale, std::pow(10.0, -decimals))) > 1e-9 * step * scale;
  char buffer[48];
  std::snprintf(buffer, sizeof(buffer), "%.*f", decimals + (half ? 1 : 0), value * scale);
  return std::string(buffer) + (percent ? " %" : "");
}

class Writer {
 public:
  explicit Writer(const Plot& plot) : plot_(plot) {
    Range x, y;
    if (plot.y_from_zero) y.add(0);
    for (const PlotLine& line : plot.lines) {
      for (const PlotPoint& point : line.points) {
        if (!finite(point)) continue;
        any_ = true;
        x.add(point.x);
        y.add(point.y);
        if (!point.interval || !finite(*point.interval)) continue;
        y.add(point.interval->low);
        y.add(point.interval->high);
      }
    }
    x_ = axis_of(x.low, x.high, kLeft, kWidth - kRight);
    y_ = axis_of(y.low, y.high, kHeight - kBottom, kTop);
  }

  std::string write() {
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + pixels(kWidth) + "\" height=\"" +
           pixels(kHeight) + "\" viewBox=\"0 0 " + pixels(kWidth) + " " + pixels(kHeight) +
           "\" font-family=\"sans-serif\" font-size=\"12\">\n";
    out_ += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    text(kLeft, 20, "start", plot_.title, " font-weight=\"bold\" font-size=\"14\"");
    if (any_) {
      axes();
      for (std::size_t i = 0; i < plot_.lines.size(); ++i) line(plot_.lines[i], i);
    } else {
      text(kWidth / 2, kHeight / 2, "middle", "no measurements", "");
    }
    return out_ + "</svg>\n";
  }

 private:
  void text(double x, double y, const char* anchor, const std::string& words,
            const std::string& more) {
    out_ += "<text x=\"" + pixels(x) + "\" y=\"" + pixels(y) + "\" text-anchor=\"" + anchor + "\"" +
            more + ">" + escaped(words) + "</text>\n";
  }
  void stroke(double x1, double y1, double x2, double y2, const std::string& colour) {
    out_ += "<line x1=\"" + pixels(x1) + "\" y1=\"" + pixels(y1) + "\" x2=\"" + pixels(x2) +
            "\" y2=\"" + pixels(y2) + "\" stroke=\"" + colour + "\"/>\n";
  }

  void axes() {
    for (int i = 0;; ++i) {
      const double value = x_.low + i * x_.step;
      if (value > x_.high + x_.step / 2) break;
      stroke(x_.place(value), y_.from, x_.place(value), y_.from + 5, "black");
      text(x_.place(value), y_.from + 19, "middle", tick_text(value, x_.step, plot_.x_percent), "");
    }
    for (int i = 0;; ++i) {
      const double value = y_.low + i * y_.step;
      if (value > y_.high + y_.step / 2) break;
      stroke(x_.from, y_.place(value), x_.to, y_.place(value), "#dddddd");
      text(x_.from - 7, y_.place(value) + 4, "end", tick_text(value, y_.step, plot_.y_percent), "");
    }
    stroke(x_.from, y_.from, x_.to, y_.from, "black");
    stroke(x_.from, y_.from, x_.from, y_.to, "black");
    text((x_.from + x_.to) / 2, kHeight - 12, "middle", plot_.x_label, "");
    const double middle = (y_.from + y_.to) / 2;
    text(16, middle, "middle", plot_.y_label,
         " transform=\"rotate(-90 16.0 " + pixels(middle) + ")\"");
  }

  void line(const PlotLine& line, std::size_t index) {
    const std::string colour = kColours[index % std::size(kColours)];
    // After all colours the same ones come again, dotted.
    const bool dotted = index / std::size(kColours) % 2 == 1;
    const std::string dash = line.dashed ? " stroke-dasharray=\"7 4\""
                             : dotted    ? " stroke-dasharray=\"2 3\""
                                         : "";
    std::string path;
    for (const PlotPoint& point : line.points) {
      if (!finite(point)) continue;
      const double x = x_.place(point.x), y = y_.place(point.y);
      path += (path.empty() ? "" : " ") + pixels(x) + "," + pixels(y);
      if (point.interval && finite(*point.interval)) whisker(x, *point.interval, colour);
      out_ += "<circle cx=\"" + pixels(x) + "\" cy=\"" + pixels(y) + "\" r=\"3\" fill=\"" + colour +
              "\"/>\n";
    }
    const std::string style =
        " fill=\"none\" stroke=\"" + colour + "\" stroke-width=\"1.6\"" + dash;
    out_ += "<polyline points=\"" + path + "\"" + style + "/>\n";
    const double y = kTop + 10 + 18 * static_cast<double>(index), x = kWidth - kRight + 14;
    out_ += "<polyline points=\"" + pixels(x) + "," + pixels(y) + " " + pixels(x + 24) + "," +
            pixels(y) + "\"" + style + "/>\n";
    text(x + 30, y + 4, "start", line.name, "");
  }

  void whisker(double x, const Interval& interval, const std::string& colour) {
    const double low = y_.place(interval.low), high = y_.place(interval.high);
    stroke(x, low, x, high, colour);
    stroke(x - 3, low, x + 3, low, colour);
    stroke(x - 3, high, x + 3, high, colour);
  }

  const Plot& plot_;
  Axis x_, y_;
  bool any_ = false;
  std::string out_;
};

}  // namespace

std::string svg(const Plot& plot) {
  return Writer(plot).write();
}

}  // namespace quire::eval
