// Goal: cells hold what was measured: shares, harm, bytes behind a gate, intervals.
// Method: two documents whose scores are written by hand; the expected numbers are worked out in
// comments.

#include "eval/summary.h"

#include <gtest/gtest.h>

#include "eval/gates.h"

namespace quire::eval {
namespace {

QuestionScore score(bool right, bool full_right, double log_p) {
  return {.right = right, .full_right = full_right, .log_p = log_p, .full_log_p = -1, .kl = 0.5};
}

InputResult input_of(std::uint32_t seed, std::vector<QuestionScore> aware) {
  ArmResult full{.arm = {kFull, 1}, .entries = 100, .bytes = 1000, .target = 1000};
  for (const QuestionScore& one : aware) {
    full.aware.push_back({one.full_right, one.full_right, -1, -1, 0});
  }
  ArmResult arm{.arm = {"h2o", 0.25}, .entries = 25, .bytes = 300, .target = 300};
  arm.aware = std::move(aware);
  return {.task = Task::kJson,
          .seed = seed,
          .tokens = 100,
          .full_bytes = 1000,
          .grain_bytes = 10,
          .arms = {full, arm}};
}

// Of 6 questions the full cache answers 4, the arm 3, 2 of them among those 4.
std::vector<InputResult> results() {
  return {input_of(0, {score(true, true, -1), score(true, true, -1), score(true, false, -1)}),
          input_of(1, {score(false, true, -4), score(false, true, -4), score(false, false, -4)})};
}

const Cell& cell_of(const Summary& summary, const std::string& label) {
  for (const Cell& cell : summary.cells) {
    if (cell.arm.label() == label) return cell;
  }
  ADD_FAILURE() << label;
  return summary.cells.front();
}

TEST(Summary, SharesAreThoseOfTheFullCachesAnswers) {
  const Summary summary = summarise(results());
  const Cell& cell = cell_of(summary, "h2o");
  EXPECT_EQ(cell.view, View::kAware) << "there are no others";
  const auto value = [&](const char* name) { return cell.measure(name)->estimate.value; };
  EXPECT_DOUBLE_EQ(value("right"), 3.0 / 6);
  EXPECT_DOUBLE_EQ(value("full_right"), 4.0 / 6);
  EXPECT_DOUBLE_EQ(value("retained"), 2.0 / 4);
  EXPECT_DOUBLE_EQ(value("harm"), 2.0 / 6);
  EXPECT_DOUBLE_EQ(value("log_p"), -2.5);
  EXPECT_DOUBLE_EQ(value("log_p_over_full"), -1.5);
  EXPECT_DOUBLE_EQ(value("kl"), 0.5);
  EXPECT_EQ(cell.measure("right")->estimate.items, 6u);
  EXPECT_EQ(cell.measure("right")->estimate.clusters, 2u);
  EXPECT_EQ(cell.measure("retained")->estimate.items, 4u);
  EXPECT_DOUBLE_EQ(cell.bytes, 300);
  EXPECT_DOUBLE_EQ(cell.bytes_share, 0.3);
}

TEST(Summary, IntervalsAreWilsonsAndThoseOfDocuments) {
  const Summary summary = summarise(results());
  const Measure& harm = *cell_of(summary, "h2o").measure("harm");
  // Wilson, 2 of 6, z = 1.96: centre (1/3 + 3.8415/12) / 1.64024 = 0.39839, half
  // 1.19494 x sqrt((2/9)/6 + 3.8415/144) = 0.30163.
  ASSERT_TRUE(harm.wilson);
  EXPECT_NEAR(harm.wilson->low, 0.0968, 1e-4);
  EXPECT_NEAR(harm.wilson->high, 0.7000, 1e-4);
  // Whole documents are drawn: shares of harm are 0 / 3 and 2 / 3, so both are possible means.
  EXPECT_DOUBLE_EQ(harm.estimate.interval.low, 0);
  EXPECT_DOUBLE_EQ(harm.estimate.interval.high, 2.0 / 3);
  EXPECT_FALSE(cell_of(summary, "h2o").measure("log_p")->wilson) << "no share";
}

TEST(Summary, BehindAGateBytesAreOfWhatItLeft) {
  std::vector<InputResult> gated = results();
  apply_gates({*make_gate("open"), *make_gate("oracle")}, gated);
  const Summary summary = summarise(gated);
  const Cell& cell = cell_of(summary, "h2o (oracle)");
  // Two of the second document's three questions are refused: harm 0, right 3 + 2 of 6.
  EXPECT_DOUBLE_EQ(cell.measure("harm")->estimate.value, 0);
  EXPECT_DOUBLE_EQ(cell.measure("right")->estimate.value, 5.0 / 6);
  EXPECT_DOUBLE_EQ(cell.measure("retained")->estimate.value, 1);
  // Open 3 of 3 and 1 of 3: bytes (300 + (300 + 2 x 1000) / 3) / 2.
  EXPECT_NEAR(cell.open_share, 2.0 / 3, 1e-12);
  EXPECT_NEAR(cell.bytes, (300 + 2300.0 / 3) / 2, 1e-9);
  EXPECT_EQ(cell_of(summary, "h2o").open_share, 1);
  EXPECT_EQ(summary.cells.size(), 3u) << "full, and both";
}

}  // namespace
}  // namespace quire::eval
