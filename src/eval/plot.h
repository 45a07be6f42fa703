// Line plots as SVG text: axes with round ticks, intervals, a legend.  No library, no font file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/statistics.h"

namespace quire::eval {

struct PlotPoint {
  double x = 0, y = 0;
  std::optional<Interval> interval{};  // of y
};

struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;  // drawn in this order
  bool dashed = false;            // for anchors and limits
};

struct Plot {
  std::string title, x_label, y_label;
  std::vector<PlotLine> lines;
  bool x_percent = false, y_percent = false;  // shares, written as percentages
  bool y_from_zero = true;                    // false: the axis begins near the smallest value
};

// One SVG document.  Points that are not finite are left out; a plot without points says so.
std::string svg(const Plot& plot);

}  // namespace quire::eval
