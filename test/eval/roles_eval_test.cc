// Goal: an evaluation of roles compares what it says on each task, takes labels from elsewhere, is
// served by its log, and writes a page of a section a model; its thresholds pass and fail where
// they should. Method: a made-up model that spells JSON over a real cache; results by hand.

#include "eval/roles_eval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "engine/prompt_roles.h"
#include "eval/json_model.h"
#include "model/running.h"

namespace quire::eval {
namespace {

class RolesEval : public testing::Test {
 protected:
  RolesEval() {
    std::ofstream(weights_.path()) << "weights";
    std::string text;
    for (int i = 0; i < 400; ++i) text += "a hare met " + std::to_string(i * i % 97) + " hounds. ";
    options_.tasks.quality = {
        .model_path = weights_.path(),
        .keeps = {0.1, 0.2},
        .tasks = {Task::kJson, Task::kJsonCompact, Task::kData, Task::kProse, Task::kJsonKeys},
        .seeds = 2,
        .inputs = {.tokens = 480, .continuation = 24, .questions = 2},
        .text = text,
        .text_name = "made up",
        .recent = 16};
  }

  RolesReport ran() {
    RolesOptions options = options_;
    arrange(options);
    const Result<RolesReport> report =
        evaluate_roles(model_, {.layers = test::fake_attention()}, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : RolesReport{};
  }

  static std::set<std::string> arms(const RolesReport& report, Task task) {
    std::set<std::string> names;
    for (const Cell& cell : report.tasks.quality.summary.cells) {
      if (cell.task == task) names.insert(short_name(cell.arm));
    }
    return names;
  }

  const test::TempFile weights_{"weights.bin"}, log_{"roles.jsonl"},
      diagnosis_{"roles.jsonl.diagnosis"};
  test::JsonModel model_;
  RolesOptions options_;
};

TEST_F(RolesEval, EachTaskHasItsArms) {
  const RolesReport report = ran();
  const std::set<std::string> json = arms(report, Task::kJson);
  for (const char* name :
       {"full", "sink-recency", "random", "prompt-random", "h2o", "snapkv-max7", "snapkv-ahead",
        "h2o + roles", "snapkv-max7 + roles", "snapkv-ahead + roles", "h2o + shuffled",
        "snapkv-max7 + shuffled", "snapkv-max7 + roles key=0", "snapkv-max7 + roles key=0.2",
        "snapkv-max7 + roles sinks=0,recent=0", "snapkv-max7:sinks=0,recent=0",
        "role-control:score=h2o,rule=ban-key", "role-control:score=snapkv-max7,rule=fair"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_TRUE(arms(report, Task::kJsonCompact).contains("snapkv-max7 + roles key=0"));
  EXPECT_FALSE(arms(report, Task::kJsonCompact).contains("role-control:score=h2o,rule=ban-key"));
  EXPECT_EQ(arms(report, Task::kProse), arms(report, Task::kJsonKeys));
  EXPECT_EQ(arms(report, Task::kProse).size(), 10u) << "full, three anchors, six";
  EXPECT_TRUE(arms(report, Task::kData).empty()) << "no file was given";
  // Full and prose beside, every arm with roles is another one than without.
  for (const Cell& cell : report.tasks.quality.summary.cells) {
    if (cell.task == Task::kProse || cell.arm.policy == kFull) continue;
    EXPECT_GT(cell.measure("kl")->estimate.value, 0) << cell.arm.policy;
    EXPECT_EQ(cell.view == View::kSecond, false);
  }
}

TEST_F(RolesEval, WithoutStructureRolesChangeNothing) {
  options_.tasks.quality.tasks = {Task::kProse};
  const RolesReport report = ran();
  for (const Check& check : report.checks) {
    if (check.name.starts_with("prose")) {
      EXPECT_TRUE(check.pass) << check.found;
    }
  }
  const auto nll = [&](const std::string& policy) {
    for (const Cell& cell : report.tasks.quality.summary.cells) {
      if (cell.arm.policy == policy) return cell.measure("nll")->estimate.value;
    }
    return std::nan("");
  };
  for (const char* score : kRoleScores) EXPECT_EQ(nll(with_roles(score)), nll(score)) << score;
}

TEST_F(RolesEval, ArmsWithoutProtectionHaveNone) {
  options_.tasks.quality.tasks = {Task::kJson};
  options_.tasks.quality.recent = 200;
  for (const Cell& cell : ran().tasks.quality.summary.cells) {
    const bool own = cell.arm.policy.find("recent=0") != std::string::npos;
    EXPECT_EQ(cell.only_protected, cell.arm.policy != kFull && !own) << cell.arm.policy;
  }
}

TEST_F(RolesEval, LabelsMayComeFromElsewhere) {
  options_.tasks.quality.tasks = {Task::kJson};
  options_.labels = {{"scanners",
                      [](const model::Model& model, std::span<const model::Token> tokens) {
                        return engine::prompt_roles(model, tokens);
                      }},
                     {"values", [](const model::Model&, std::span<const model::Token> tokens) {
                        return std::vector<Role>(tokens.size(), Role::kValue);
                      }}};
  const Json arms = json_of(ran()).at("arms");
  const auto found = [&](const std::string& policy, const char* labels, const char* view) {
    for (const Json& arm : arms) {
      if (arm.at("policy") == policy && arm.at("labels") == labels && arm.at("view") == view &&
          arm.at("keep") == 0.2)
        return arm.at("logprob").get<double>();
    }
    ADD_FAILURE() << policy << " " << labels;
    return 0.0;
  };
  for (const char* view : {"aware", "blind"}) {
    for (const char* score : kRoleScores) {
      const double parser = found(with_roles(score), "parser", view);
      EXPECT_EQ(found(with_roles(score), "scanners", view), parser) << score;
      EXPECT_NE(found(with_roles(score), "values", view), parser) << score;
      EXPECT_NE(found(shuffled_roles(score), "shuffled", view), parser) << score;
      EXPECT_NE(found(score, "none", view), parser) << score;
    }
    // One role for all leaves the score to choose.
    EXPECT_EQ(found(with_roles("h2o"), "values", view), found("h2o", "none", view));
  }
}

TEST_F(RolesEval, FilesAreDocumentsInTurn) {
  Json records = Json::array();
  for (int i = 0; i < 60; ++i) {
    records.push_back({{"code", "c" + std::to_string(100 + i)}, {"size", 70000 + i}});
  }
  options_.tasks.quality.tasks = {Task::kData};
  options_.files = {{"one.json", records.dump()}, {"two.json", records.dump()}};
  const RolesReport report = ran();
  EXPECT_EQ(report.tasks.quality.inputs, 2u);
  EXPECT_EQ(report.tasks.quality.header.at("options").at("data"), "one.json, two.json");
  EXPECT_TRUE(arms(report, Task::kData).contains("snapkv-max7 + roles"));
  EXPECT_EQ(report.diagnosis.size(), 2u);
  options_.files.push_back({"none.json", "[1, 2]"});
  arrange(options_);
  const Status refused =
      evaluate_roles(model_, {.layers = test::fake_attention()}, options_).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_TRUE(refused.message().starts_with("none.json: ")) << refused.message();
}

TEST_F(RolesEval, ALogServesTheSameReport) {
  options_.tasks.quality.tasks = {Task::kJson, Task::kProse};
  options_.tasks.quality.log_path = log_.path();
  const std::string first = json_of(ran()).dump();
  const std::size_t steps = model_.steps.size();
  EXPECT_EQ(json_of(ran()).dump(), first);
  EXPECT_EQ(model_.steps.size(), steps) << "nothing was measured again";
}

TEST_F(RolesEval, ThePageHasASectionAModel) {
  options_.tasks.quality.tasks = {Task::kJson, Task::kProse};
  RolesReport report = ran();
  EXPECT_TRUE(report.tasks.quality.model_file.ends_with("-weights.bin"));
  report.tasks.quality.model_file = "fake.gguf";
  const std::string directory = log_.path() + ".report";
  const auto text_of = [&](const std::string& name) {
    std::ifstream in(directory + "/" + name);
    return std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  };
  ASSERT_TRUE(write_report(report, directory).ok());
  const std::string one = text_of("roles.md");
  EXPECT_NE(one.find("## fake.gguf\n"), std::string::npos);
  EXPECT_NE(one.find("| keys : values |"), std::string::npos);
  for (const char* plot : {"roles-fake-json-aware-16-log_p", "roles-fake-json-blind-16-retained"}) {
    const std::string path = "plots/" + std::string(plot) + ".svg";
    EXPECT_NE(one.find(path), std::string::npos) << path;
    EXPECT_TRUE(text_of(path).starts_with("<svg ")) << path;
  }
  EXPECT_TRUE(text_of("roles-fake.csv").starts_with("task,view,policy,keep,gate,labels,"));
  ASSERT_TRUE(write_report(report, directory).ok());
  EXPECT_EQ(text_of("roles.md"), one) << "a section takes its own place";
  report.tasks.quality.model_file = "Other 0.5B.gguf";
  ASSERT_TRUE(write_report(report, directory).ok());
  const std::string both = text_of("roles.md");
  EXPECT_TRUE(both.starts_with(one)) << "the first section stays";
  EXPECT_NE(both.find("## Other 0.5B.gguf\n"), std::string::npos);
  EXPECT_TRUE(text_of("plots/roles-other-0-5b-json-aware-16-log_p.svg").starts_with("<svg "));
  std::filesystem::remove_all(directory);
  EXPECT_EQ(write_report(report, "/proc/nowhere").code(), Code::kIo);
  EXPECT_NE(table_of(report).find("snapkv-ahead + roles"), std::string::npos);
}

// --- thresholds ---

// Questions of which the first `right` are answered.
std::vector<QuestionScore> scores(int right, double log_p) {
  std::vector<QuestionScore> list(10, {.full_right = true, .log_p = log_p});
  for (int i = 0; i < right; ++i) list[static_cast<std::size_t>(i)].right = true;
  return list;
}

ArmResult arm(const std::string& policy, double keep, int right, double log_p) {
  return {.arm = {policy, keep}, .blind = scores(0, log_p), .aware = scores(right, log_p)};
}

// Two documents of indented JSON: plain SnapKV, roles that answer `gain` more, shuffled ones.
std::vector<InputResult> by_hand(int gain) {
  std::vector<InputResult> results;
  for (std::uint32_t seed = 0; seed < 2; ++seed) {
    InputResult input{.task = Task::kJson, .seed = seed};
    for (const double keep : {0.05, 0.1, 0.2, 0.5}) {
      input.arms.push_back(arm("h2o", keep, 0, -5));
      input.arms.push_back(arm("snapkv-max7", keep, 2, -3));
      input.arms.push_back(arm(with_roles("snapkv-max7"), keep, 2 + gain, -2.5));
      input.arms.push_back(arm(shuffled_roles("snapkv-max7"), keep, 1, -4));
    }
    results.push_back(std::move(input));
  }
  return results;
}

const Check* check_of(const std::vector<Check>& checks, const std::string& name) {
  const auto found = std::ranges::find(checks, name, &Check::name);
  return found == checks.end() ? nullptr : &*found;
}

TEST(RoleChecks, PassAndFailByTheirThresholds) {
  std::vector<std::string> missing;
  // +.3 of EM, .5 of the gap (0 to 10 right: 5 of 10).
  const std::vector<Check> checks = role_checks(by_hand(3), {}, missing);
  const Check* gain = check_of(checks, "indented, aware: roles over snapkv-max7");
  ASSERT_NE(gain, nullptr);
  EXPECT_TRUE(gain->pass);
  EXPECT_EQ(gain->found, "10 %: 0.300 [0.300, 0.300]; 20 %: 0.300 [0.300, 0.300]");
  const Check* gap =
      check_of(checks, "indented, aware: share of the H2O-to-full gap that roles close");
  ASSERT_NE(gap, nullptr);
  EXPECT_FALSE(gap->pass);
  EXPECT_EQ(gap->found, "5 %: 0.500 [0.500, 0.500]; 10 %: 0.500 [0.500, 0.500]");
  EXPECT_TRUE(check_of(checks, "indented, aware: shuffled labels are below plain")->pass);
  EXPECT_TRUE(check_of(checks, "indented, blind: roles over snapkv-max7, a fifth kept")->pass);
  EXPECT_TRUE(check_of(checks, "indented, blind: roles over snapkv-max7, half kept")->pass);

  const std::string bytes = "roles take the bytes of the score alone";
  std::vector<InputResult> uneven = by_hand(3);
  for (InputResult& input : uneven) {
    for (ArmResult& one : input.arms) one.bytes = one.arm.policy.starts_with("role") ? 1009 : 1000;
  }
  const std::vector<Check> near = role_checks(uneven, {}, missing);
  EXPECT_TRUE(check_of(near, bytes)->pass);
  uneven[1].arms[2].bytes = 1011;
  const std::vector<Check> apart = role_checks(uneven, {}, missing);
  EXPECT_FALSE(check_of(apart, bytes)->pass);
  EXPECT_EQ(check_of(apart, bytes)->found, "at most 1.10 % of 8 pairs");

  const std::vector<Check> less = role_checks(by_hand(2), {}, missing);
  EXPECT_FALSE(check_of(less, "indented, aware: roles over snapkv-max7")->pass);
  const std::vector<Check> more = role_checks(by_hand(5), {}, missing);
  EXPECT_TRUE(
      check_of(more, "indented, aware: share of the H2O-to-full gap that roles close")->pass);
}

TEST(RoleChecks, WhatWasNotMeasuredIsSaidAndNotJudged) {
  std::vector<std::string> missing;
  const std::vector<Check> checks = role_checks(by_hand(3), {}, missing);
  EXPECT_EQ(check_of(checks, "prose: roles are neutral"), nullptr);
  EXPECT_NE(std::ranges::find(missing, "prose: roles are neutral"), missing.end());
  EXPECT_NE(std::ranges::find(missing, "indented: H2O alone keeps keys more often than values"),
            missing.end());
  missing.clear();
  EXPECT_TRUE(role_checks({}, {}, missing).empty());
  EXPECT_EQ(missing.size(), 15u);
}

TEST(GapClosed, IsOfWhatH2OLoses) {
  const std::vector<InputResult> results = by_hand(3);
  const auto closed = [&](const Arm& arm) {
    return gap_closed(results, Task::kJson, View::kAware, arm).value;
  };
  EXPECT_DOUBLE_EQ(closed({"snapkv-max7", 0.1}), 0.2);
  EXPECT_DOUBLE_EQ(closed({with_roles("snapkv-max7"), 0.1}), 0.5);
  EXPECT_DOUBLE_EQ(closed({"h2o", 0.1}), 0);
  EXPECT_TRUE(std::isnan(closed({"knorm", 0.1})));
}

}  // namespace
}  // namespace quire::eval
