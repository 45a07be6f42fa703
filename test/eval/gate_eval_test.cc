// Goal: an evaluation of gates selects between what was measured and the full cache, as each gate
// decides from values and thresholds of other prompts, and says how well.
// Method: documents written by hand, whose values name their class or nothing; a made-up model.

#include "eval/gate_eval.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "engine/fake_model.h"
#include "model/running.h"

namespace quire::eval {
namespace {

constexpr QuestionScore kHarmed{.right = false, .full_right = true, .first_kl = 0.2};
constexpr QuestionScore kRight{.right = true, .full_right = true};
constexpr QuestionScore kBeyond{.right = false, .full_right = false};

// By page-d, where large values are safe, and log-max-mean, where small ones are; row-variation
// and the control know nothing.
GateValues values_of(double safe) {
  return {safe, 1, -safe, 0};
}

LabelledValues labelled(Task task, double safe) {
  return {.task = task, .values = values_of(safe)};
}

InputResult document(Task task, double safe, std::vector<QuestionScore> scores) {
  ArmResult full{.arm = {kFull, 1}}, arm{.arm = {"snapkv", 0.25}};
  arm.bytes = 25;
  for (const QuestionScore& score : scores) {
    full.aware.push_back(score.full_right ? kRight : kBeyond);
  }
  InputResult input{.task = task, .full_bytes = 100, .document_values = values_of(safe)};
  for (std::size_t i = 0; i < scores.size(); ++i) {
    input.question_values.push_back(values_of(safe + 0.001 * static_cast<double>(i)));
  }
  arm.aware = std::move(scores);
  input.arms = {full, arm};
  return input;
}

const std::vector<LabelledValues> kCalibration = {
    labelled(Task::kKeys, 0.1), labelled(Task::kKeys, 0.3), labelled(Task::kNeedle, 0.8),
    labelled(Task::kChain, 1.0)};

std::vector<InputResult> measured() {
  return {document(Task::kKeys, 0.1, {kHarmed, kHarmed, kRight, kBeyond}),
          document(Task::kKeys, 0.2, {kHarmed, kHarmed}),
          document(Task::kNeedle, 0.9, {kRight, kRight}),
          document(Task::kNeedle, 0.8, {kRight, kHarmed}), document(Task::kJson, 0.7, {kRight})};
}

const GatedArm& arm_of(const GateSummary& summary, const std::string& gate,
                       std::optional<NeedClass> need) {
  for (const GatedArm& arm : summary.arms) {
    if (arm.gate == gate && arm.need == need) return arm;
  }
  ADD_FAILURE() << "no arm behind " << gate;
  return summary.arms.front();
}

TEST(GateFit, IsHalfWayBetweenTheClasses) {
  const GateFit fit = fit_gate(Statistic::kPageD, kCalibration);
  EXPECT_DOUBLE_EQ(fit.labelled, (0.2 + 0.9) / 2);
  EXPECT_DOUBLE_EQ(fit.mean, 0.55);
  EXPECT_DOUBLE_EQ(fit_gate(Statistic::kPageD, kCalibration, Task::kChain).labelled, 0.5);
  const GateFit without = fit_gate(Statistic::kPageD, kCalibration, Task::kKeys);
  EXPECT_DOUBLE_EQ(without.labelled, 0.9) << "only dilution is left";
  EXPECT_EQ(fit.calibration(engine::GateMode::kZ).threshold, engine::kGateZ);
}

TEST(GateSummary, GatesSelectBetweenArmAndFullCache) {
  const GateSummary summary = summarise_gates(kCalibration, measured());
  const auto harm = [&](const char* gate, std::optional<NeedClass> need) {
    return arm_of(summary, gate, need).harm.value;
  };
  EXPECT_DOUBLE_EQ(harm("open", NeedClass::kCapacity), 4.0 / 5) << "of those the full cache has";
  EXPECT_DOUBLE_EQ(harm("open", NeedClass::kDilution), 1.0 / 4);
  EXPECT_DOUBLE_EQ(harm("open", {}), 5.0 / 10);
  EXPECT_DOUBLE_EQ(arm_of(summary, "open", {}).bytes_share, 0.25);
  EXPECT_EQ(harm("closed", {}), 0);
  EXPECT_DOUBLE_EQ(arm_of(summary, "closed", {}).bytes_share, 1);
  EXPECT_EQ(harm("oracle", {}), 0);
  EXPECT_DOUBLE_EQ(arm_of(summary, "oracle", {}).open, 6.0 / 11);
  for (const char* gate : {"page-d", "log-max-mean"}) {
    EXPECT_EQ(harm(gate, NeedClass::kCapacity), 0) << gate;
    EXPECT_EQ(arm_of(summary, gate, NeedClass::kCapacity).open, 0) << gate;
    EXPECT_DOUBLE_EQ(harm(gate, NeedClass::kDilution), 1.0 / 4) << gate;
    EXPECT_EQ(arm_of(summary, gate, NeedClass::kDilution).open, 1) << gate;
    EXPECT_DOUBLE_EQ(arm_of(summary, gate, {}).open, 5.0 / 11) << gate;
    EXPECT_DOUBLE_EQ(arm_of(summary, gate, {}).bytes_share, (5 * 0.25 + 6) / 11) << gate;
    const std::string random = std::string("random as ") + gate;
    EXPECT_DOUBLE_EQ(arm_of(summary, random, {}).open, 5.0 / 11);
    EXPECT_DOUBLE_EQ(arm_of(summary, random, {}).harm.value, 5.0 / 11 * 0.5);
    EXPECT_DOUBLE_EQ(arm_of(summary, random, NeedClass::kCapacity).harm.value, 5.0 / 11 * 0.8);
  }
}

TEST(GateSummary, ASignedGateLearnsWhichSideIsSafe) {
  // Small values of page-d are safe on this model.
  std::vector<LabelledValues> calibration = kCalibration;
  for (LabelledValues& prompt : calibration) prompt.values = values_of(1 - prompt.values[0]);
  std::vector<InputResult> results = measured();
  for (InputResult& input : results) {
    for (GateValues& values : input.question_values) values = values_of(1 - values[0]);
  }
  const GateSummary summary = summarise_gates(calibration, results);
  EXPECT_EQ(summary.statistics[0].auc.value, 0);
  EXPECT_EQ(arm_of(summary, "page-d", NeedClass::kCapacity).open, 1);
  EXPECT_EQ(arm_of(summary, "page-d", NeedClass::kDilution).open, 0);
  EXPECT_EQ(arm_of(summary, "page-d:signed", NeedClass::kCapacity).open, 0);
  EXPECT_EQ(arm_of(summary, "page-d:signed", NeedClass::kDilution).open, 1);
  EXPECT_EQ(arm_of(summary, "page-d:signed", {}).harm.value, 1.0 / 10);
}

TEST(GateSummary, SaysHowWellAStatisticOrdersTheClasses) {
  const GateSummary summary = summarise_gates(kCalibration, measured());
  ASSERT_EQ(summary.statistics.size(), 4u);
  EXPECT_EQ(summary.statistics[0].auc.value, 1);
  EXPECT_EQ(summary.statistics[1].auc.value, 0.5) << "equal values are worth half";
  EXPECT_EQ(summary.statistics[2].auc.value, 1);
  EXPECT_EQ(summary.statistics[0].same_document, 1);
  ASSERT_EQ(summary.statistics[0].classes.size(), 3u);
  const ClassValues& needle = summary.statistics[0].classes[0];
  EXPECT_EQ(needle.task, Task::kNeedle);
  EXPECT_EQ(needle.prompts, 4u);
  EXPECT_EQ(needle.open, 1);
  EXPECT_NEAR(needle.mean, 0.8505, 1e-9);
  // Three of each statistic in each of three modes, in their order, then of the self-check; one of
  // the control.
  ASSERT_EQ(summary.checks.size(), 31u);
  EXPECT_TRUE(summary.checks[30].pass);
  for (const std::size_t i : {0u, 1u, 6u, 7u, 18u, 19u}) EXPECT_TRUE(summary.checks[i].pass) << i;
  EXPECT_TRUE(summary.checks[3].name.starts_with("page-d:z: harm"));
  EXPECT_TRUE(summary.checks[6].name.starts_with("page-d:signed: harm"));
  EXPECT_FALSE(summary.checks[9].pass) << "row-variation is open or closed to all";
  std::vector<InputResult> harmless = {document(Task::kKeys, 0.1, {kRight}),
                                       document(Task::kNeedle, 0.9, {kRight})};
  const GateSummary nothing = summarise_gates(kCalibration, harmless);
  ASSERT_EQ(nothing.checks.size(), 2u);
  EXPECT_FALSE(nothing.checks[0].pass);
}

TEST(GateSummary, ASelfCheckKnowsWhatItsReviewChanged) {
  const GateSummary summary = summarise_gates(kCalibration, measured());
  ASSERT_EQ(summary.self_checks.size(), 1u);
  EXPECT_EQ(summary.self_checks[0].policy, "snapkv");
  EXPECT_EQ(summary.self_checks[0].harm_auc.value, 1);
  EXPECT_EQ(summary.self_checks[0].capacity_harm_auc.value, 1);
  EXPECT_EQ(arm_of(summary, "self-check:0.10", {}).harm.value, 0);
  EXPECT_DOUBLE_EQ(arm_of(summary, "self-check:0.10", NeedClass::kDilution).open, 3.0 / 4);
  EXPECT_DOUBLE_EQ(arm_of(summary, "self-check:0.30", {}).harm.value, 5.0 / 10);
  EXPECT_DOUBLE_EQ(arm_of(summary, "random as self-check:0.10", {}).open, 6.0 / 11);
}

TEST(GateEval, CountsWhatTheFullCacheAnswers) {
  EXPECT_EQ(answered_of(NeedClass::kCapacity, measured()), 5u);
  EXPECT_EQ(answered_of(NeedClass::kDilution, measured()), 4u);
  EXPECT_EQ(answered_of(NeedClass::kOther, measured()), 1u);
}

TEST(GateEval, MeasuresOnceAndWritesItsPages) {
  const test::TempFile weights("weights.bin"), log("gates.jsonl");
  std::ofstream(weights.path()) << "weights";
  GateEvalOptions options{.calibration_prompts = 2};
  options.quality = {.model_path = weights.path(),
                     .policies = {"snapkv:window=16"},
                     .keeps = {0.25},
                     .tasks = {Task::kKeys, Task::kNeedle},
                     .seeds = 2,
                     .inputs = {.tokens = 300, .needles = 2, .questions = 3},
                     .text_name = "made up",
                     .recent = 16,
                     .log_path = log.path()};
  for (int i = 0; i < 400; ++i) {
    options.quality.text += "a hare met " + std::to_string(i * i % 97) + " hounds. ";
  }
  arrange_gates(options);
  options.quality.only_right = false;  // a made-up model answers nothing
  test::FakeModel model;
  const auto run = [&] {
    return evaluate_gates(model, {.layers = test::fake_attention()}, options);
  };
  const Result<GateReport> report = run();
  ASSERT_TRUE(report.ok()) << report.status().message();
  const std::size_t steps = model.steps.size();
  for (const InputResult& input : report->quality.results) {
    ASSERT_TRUE(input.document_values);
    EXPECT_EQ(input.question_values.size(), input.task == Task::kKeys ? 3u : 2u);
  }
  const Json object = json_of(*report);
  EXPECT_EQ(object.at("quire_json"), 1);
  EXPECT_EQ(object.at("statistics").size(), 4u);
  std::set<std::string> gates;
  for (const Json& arm : object.at("arms")) gates.insert(arm.at("gate").get<std::string>());
  for (const char* gate :
       {"open", "closed", "oracle", "page-d", "row-variation:z", "random as log-max-mean"}) {
    EXPECT_TRUE(gates.contains(gate)) << gate;
  }
  EXPECT_FALSE(gates.contains("shuffled-d")) << "a control is no gate";
  // Again from the log: calibration alone is read anew.
  const Result<GateReport> again = run();
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(json_of(*again).dump(), object.dump());
  EXPECT_LT(model.steps.size() - steps, steps / 2);

  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "quire-gate-eval";
  GateReport named = *report;
  named.quality.model_file = "Fake.gguf";
  ASSERT_TRUE(write_report(named, folder.string()).ok());
  for (const char* file : {"gate.md", "gate-fake.csv", "plots/gate-fake-snapkv_window_16.svg"}) {
    EXPECT_GT(std::filesystem::file_size(folder / file), 200u) << file;
  }
  std::filesystem::remove_all(folder);
  options.quality.tasks = {Task::kProse};
  EXPECT_FALSE(run().ok());
}

}  // namespace
}  // namespace quire::eval
