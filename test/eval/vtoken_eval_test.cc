// Goal: the experiment finds no difference between the cache and its oracle, the formula's saving
// for random holes, none for whole blocks, and equal logits; refusals name what is wrong. Method: a
// made-up model over real caches.

#include "eval/vtoken_eval.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "engine/fake_model.h"
#include "model/running.h"

namespace quire::eval {
namespace {

VtokenOptions options() {
  std::string text;
  for (int i = 0; i < 600; ++i) text += "hare " + std::to_string(i * i % 97) + " ran. ";
  return {.text = text,
          .tokens = 2048,
          .ratios = {0.5, 0.9},
          .blocks = {8, 32},
          .control_tokens = 512,
          .control_ratios = {0.5},
          .control_blocks = {16},
          .keep_victims = true};
}

Result<VtokenReport> run(const VtokenOptions& options) {
  test::FakeModel model;
  return evaluate_vtoken(model, {.layers = test::fake_attention()}, options);
}

TEST(VtokenEval, TheCacheHoldsWhatTheOracleCounts) {
  const Result<VtokenReport> report = run(options());
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->oracle_mismatches, 0u);
  // Four lanes are few: the real models have 48 and 90.
  EXPECT_LE(report->random_saving_error_points, 3.0);
  EXPECT_EQ(report->control_saving, 0);
  std::size_t formula = 0, controls = 0;
  for (const VtokenCell& cell : report->cells) {
    formula += cell.expected_saving ? 1 : 0;
    controls += cell.control ? 1 : 0;
    EXPECT_LE(cell.blocks, cell.blocks_peak);
    if (cell.arm != "repack") {
      EXPECT_EQ(cell.saving, 0);
    }
  }
  EXPECT_EQ(formula, 4u);
  EXPECT_GE(controls, 4u);
  ASSERT_EQ(report->logits.size(), 2u);
  for (const VtokenLogits& logits : report->logits) {
    EXPECT_TRUE(logits.bit_equal) << logits.policy;
    EXPECT_GT(logits.moved_entries, 0u) << logits.policy;
    EXPECT_GT(logits.reviews, 0u);
  }
  ASSERT_TRUE(report->hooks);
  EXPECT_GE(report->hooks->processor_share, 0);
  EXPECT_EQ(report->hooks->wall.clusters, 100u);
  EXPECT_LE(report->hooks->wall.interval.low, report->hooks->wall.value);
  EXPECT_GE(report->hooks->wall.interval.high, report->hooks->wall.value);
}

TEST(VtokenEval, ReportsHaveTheirKeysAndFiles) {
  VtokenOptions small = options();
  small.ratios = {0.5};
  const Result<VtokenReport> report = run(small);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const Json json = json_of(*report);
  EXPECT_EQ(json.at("quire_json"), 1);
  for (const char* key :
       {"model", "policy", "arm", "ratio", "block_tokens", "blocks", "oracle_blocks", "saving"}) {
    EXPECT_TRUE(json.at("cells").at(0).contains(key)) << key;
  }
  for (const char* key : {"oracle_mismatches", "random_saving_error_points", "control_saving",
                          "idle_overhead", "idle_overhead_wall", "idle_overhead_wall_interval"}) {
    EXPECT_TRUE(json.at("summary").contains(key)) << key;
  }
  EXPECT_NE(table_of(*report).find("pass  blocks equal the oracle"), std::string::npos);
  const std::string directory = test::TempFile("vtoken").path();
  ASSERT_TRUE(write_report(*report, directory).ok());
  for (const char* name : {"vtoken.md", "vtoken.csv", "plots/vtoken-formula.svg"}) {
    EXPECT_TRUE(std::filesystem::exists(directory + "/" + name)) << name;
  }
  std::filesystem::remove_all(directory);

  std::istringstream victims(victims_text(report->victims));
  std::string line;
  std::size_t lines = 0;
  while (std::getline(victims, line)) {
    const Json one = Json::parse(line);
    EXPECT_TRUE(one.at("positions").is_array());
    EXPECT_GT(one.at("step"), 0);
    ++lines;
  }
  EXPECT_GT(lines, 0u);
  EXPECT_EQ(lines % (test::kLayers * test::kKvHeads), 0u);
}

TEST(VtokenEval, AnotherModelsCellsJoinTheReport) {
  VtokenOptions small = options();
  small.ratios = {0.5};
  Result<VtokenReport> report = run(small);
  ASSERT_TRUE(report.ok()) << report.status().message();
  small.hook_cost = false;
  Result<VtokenReport> other = run(small);
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_FALSE(other->hooks);
  const double overhead = report->hooks->processor_share;
  const std::size_t cells = report->cells.size();
  for (VtokenCell& cell : other->cells) cell.model = "fake 2";
  other->control_saving = 0.5;
  other->cells[0].oracle_blocks += 1;
  other->oracle_mismatches = 1;
  merge(*report, *std::move(other));
  EXPECT_EQ(report->cells.size(), 2 * cells);
  EXPECT_EQ(report->logits.size(), 4u);
  EXPECT_EQ(report->oracle_mismatches, 1u);
  EXPECT_EQ(report->control_saving, 0.5);
  EXPECT_EQ(report->hooks->processor_share, overhead);
  EXPECT_EQ(models_of(*report), (std::vector<std::string>{"fake", "fake 2"}));
  EXPECT_EQ(json_of(*report).at("cells").back().at("model"), "fake 2");
  const std::string directory = test::TempFile("vtoken-two").path();
  ASSERT_TRUE(write_report(*report, directory).ok());
  for (const char* name : {"vtoken-formula.svg", "vtoken-formula2.svg", "vtoken-policies2.svg"}) {
    EXPECT_TRUE(std::filesystem::exists(directory + "/plots/" + name)) << name;
  }
  std::filesystem::remove_all(directory);
}

TEST(VtokenEval, WhatCannotBeMeasuredIsRefused) {
  VtokenOptions shorter = options();
  shorter.text = "too short";
  EXPECT_EQ(run(shorter).status().code(), Code::kInvalidArgument);
  test::FakeModel model(1000);
  EXPECT_EQ(evaluate_vtoken(model, {.layers = test::fake_attention()}, options()).status().code(),
            Code::kInvalidArgument);
  std::vector<LayerShape> windows = test::fake_attention();
  windows[0].window = 64;
  EXPECT_EQ(evaluate_vtoken(model, {.layers = windows}, options()).status().code(),
            Code::kUnsupported);
  std::atomic<bool> cancel{true};
  VtokenOptions stopped = options();
  stopped.cancel = &cancel;
  EXPECT_EQ(run(stopped).status().code(), Code::kCancelled);
}

}  // namespace
}  // namespace quire::eval
