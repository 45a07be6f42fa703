// Goal: a calibration is the mean and deviation of the statistic over prompts that are named by
// their options alone, or half way between two kinds of them, and bad options are refused.
// Method: values by hand; a made-up model over a real cache.

#include "eval/gate_calibration.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "engine/fake_model.h"

namespace quire::eval {
namespace {

using engine::GateMode;

GateCalibrationOptions options_of(GateMode mode = GateMode::kZ) {
  GateCalibrationOptions options{.mode = mode, .prompts = 34, .tokens = 160};
  for (int i = 0; i < 400; ++i) {
    options.filler += "a hare met " + std::to_string(i * i % 97) + " hounds. ";
  }
  return options;
}

GateCalibrationResult calibrated(const GateCalibrationOptions& options) {
  test::FakeModel model;
  const Result<GateCalibrationResult> result =
      calibrate_gate(model, {.layers = test::fake_attention()}, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *result : GateCalibrationResult{};
}

std::string refusal(const GateCalibrationOptions& options) {
  test::FakeModel model(600);
  const Result<GateCalibrationResult> result =
      calibrate_gate(model, {.layers = test::fake_attention()}, options);
  return result.ok() ? "calibrated" : result.status().message();
}

TEST(GateCalibration, IsMeanAndDeviationOfASample) {
  const Result<engine::GateCalibration> z = calibration_of(options_of(), {1, 2, 3, 6});
  ASSERT_TRUE(z.ok());
  EXPECT_EQ(z->mean, 3);
  EXPECT_DOUBLE_EQ(z->deviation, std::sqrt(14.0 / 3));
  EXPECT_EQ(z->threshold, engine::kGateZ);
  // Two kinds in turn: half way between their means.
  const Result<engine::GateCalibration> labelled =
      calibration_of(options_of(GateMode::kLabelled), {1, 5, 2, 6, 3, 7});
  ASSERT_TRUE(labelled.ok());
  EXPECT_EQ(labelled->threshold, 4);
  const Result<engine::GateCalibration> sign =
      calibration_of(options_of(GateMode::kSigned), {5, 1, 6, 2, 7, 3});
  ASSERT_TRUE(sign.ok());
  EXPECT_EQ(sign->threshold, 0);
  EXPECT_EQ(sign->mean, 4);
  EXPECT_EQ(sign->deviation, -2) << "the second kind has the smaller values";
  EXPECT_FALSE(calibration_of(options_of(GateMode::kSigned), {2, 2, 2, 2}).ok());
  EXPECT_FALSE(calibration_of(options_of(), {2, 2, 2}).ok());
  GateCalibrationOptions raw = options_of(GateMode::kRaw);
  EXPECT_EQ(calibration_of(raw, {1, 2})->threshold, engine::kPageTau);
  raw.statistic = Statistic::kLogMaxMean;
  EXPECT_FALSE(calibration_of(raw, {1, 2}).ok());
  raw.threshold = 3;
  EXPECT_EQ(calibration_of(raw, {1, 2})->threshold, 3);
}

TEST(GateCalibration, PromptsAreOfEveryFormAndTheSameEachTime) {
  double last = -1;
  GateCalibrationOptions options = options_of();
  options.on_progress = [&](double share, const std::string&) {
    EXPECT_GT(share, last);
    last = share;
  };
  const GateCalibrationResult first = calibrated(options);
  EXPECT_EQ(first.prompts, 34u);
  EXPECT_EQ(first.calibration, calibrated(options_of()).calibration);
  EXPECT_GT(first.calibration.deviation, 0);
  for (const StatisticInfo& info : kStatistics) {
    GateCalibrationOptions other = options_of(GateMode::kLabelled);
    other.statistic = info.statistic;
    const GateCalibrationResult labelled = calibrated(other);
    EXPECT_EQ(labelled.prompts, 40u) << info.name;
    EXPECT_EQ(labelled.calibration.statistic, info.statistic);
    EXPECT_EQ(labelled.calibration.threshold, labelled.calibration.mean);
  }
}

TEST(GateCalibration, TextsOfTheUsersAreCutEvenly) {
  GateCalibrationOptions options = options_of();
  options.texts = {options.filler, options.filler.substr(0, 400)};
  EXPECT_EQ(calibrated(options).prompts, 34u);
  options.texts = {"brief"};
  EXPECT_NE(refusal(options).find("is too short for 34 prompts of 160"), std::string::npos);
  options = options_of();
  options.tokens = 700;
  EXPECT_NE(refusal(options).find("the model's context 600"), std::string::npos);
  options = options_of();
  const std::atomic<bool> cancel = true;
  options.cancel = &cancel;
  EXPECT_EQ(refusal(options), "cancelled");
}

}  // namespace
}  // namespace quire::eval
