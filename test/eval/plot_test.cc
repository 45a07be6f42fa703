// Goal: plots are well-formed SVG that shows every finite point inside its axes, and nothing else.
// Method: the text is read back: tags matched, coordinates compared with the canvas.

#include "eval/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

namespace quire::eval {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) {
    ++found;
  }
  return found;
}

// Every tag is closed, attributes have no bare angle bracket.
void expect_well_formed(const std::string& svg) {
  EXPECT_EQ(svg.find("<svg "), 0u);
  std::size_t open = 0;
  const std::regex tag("<(/?)[a-z]+( [a-zA-Z0-9-]+=\"[^\"<>]*\")*(/?)>");
  std::size_t matched = 0;
  for (std::sregex_iterator it(svg.begin(), svg.end(), tag), end; it != end; ++it, ++matched) {
    if (!(*it)[1].str().empty()) {
      ASSERT_GT(open, 0u);
      --open;
    } else if ((*it)[3].str().empty()) {
      ++open;
    }
  }
  EXPECT_EQ(open, 0u);
  EXPECT_EQ(matched, count(svg, "<"));
}

Plot two_lines() {
  return {.title = "a < b & \"c\"",
          .x_label = "share",
          .y_label = "KL",
          .lines = {{.name = "h2o", .points = {{0.125, 3.1, Interval{2.5, 3.9}}, {0.5, 1.2}}},
                    {.name = "random", .points = {{0.125, 4.0}, {0.5, 2.0}}, .dashed = true}},
          .x_percent = true};
}

TEST(Plot, IsWellFormedWithEveryPointInsideTheCanvas) {
  const std::string text = svg(two_lines());
  expect_well_formed(text);
  EXPECT_EQ(count(text, "<circle"), 4u);
  EXPECT_EQ(count(text, "stroke-dasharray"), 2u);  // the dashed line, and in the legend
  EXPECT_NE(text.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(text.find(">h2o<"), std::string::npos);
  EXPECT_NE(text.find(" %</text>"), std::string::npos);
  const std::regex circle("<circle cx=\"([0-9.]+)\" cy=\"([0-9.]+)\"");
  for (std::sregex_iterator it(text.begin(), text.end(), circle), end; it != end; ++it) {
    EXPECT_GE(std::stod((*it)[1]), 0);
    EXPECT_LE(std::stod((*it)[1]), 760);
    EXPECT_GE(std::stod((*it)[2]), 0);
    EXPECT_LE(std::stod((*it)[2]), 420);
  }
}

TEST(Plot, HigherValuesAreDrawnHigher) {
  const std::string text = svg({.lines = {{.name = "a", .points = {{0, 1}, {1, 5}}}}});
  const std::regex circle("cy=\"([0-9.]+)\"");
  std::sregex_iterator it(text.begin(), text.end(), circle);
  const double low = std::stod((*it)[1]), high = std::stod((*++it)[1]);
  EXPECT_GT(low, high);
}

TEST(Plot, LeavesOutWhatIsNotFiniteAndSaysWhenNothingIsLeft) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Plot plot{.lines = {{.name = "a", .points = {{0, 1}, {1, nan}, {INFINITY, 1}}}}};
  plot.lines[0].points[0].interval = {nan, nan};
  const std::string text = svg(plot);
  expect_well_formed(text);
  EXPECT_EQ(count(text, "<circle"), 1u);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  const std::string none = svg({});
  expect_well_formed(none);
  EXPECT_NE(none.find("no measurements"), std::string::npos);
}

TEST(Plot, MoreLinesThanColoursStayApart) {
  Plot plot;
  for (int i = 0; i < 9; ++i) {
    plot.lines.push_back({.name = std::to_string(i), .points = {{0, i * 1.0}}});
  }
  EXPECT_EQ(count(svg(plot), "stroke-dasharray=\"2 3\""), 2u);
}

}  // namespace
}  // namespace quire::eval
