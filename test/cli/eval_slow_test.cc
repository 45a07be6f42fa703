// Goal: `quire eval` runs on a real model: arms beside a full cache that equals itself, and blocks
// that equal their independent count.
// Method: the built program with SmolLM2, short documents; its JSON is read.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "cli/program.h"
#include "model/real_model.h"

namespace quire {
namespace {

using nlohmann::json;
using test::quire;
using test::Ran;

json parsed(const Ran& ran) {
  EXPECT_EQ(ran.status, 0) << ran.err;
  return json::parse(ran.out, nullptr, false);
}

TEST(EvalPolicies, TheFullCacheAnswersAndEqualsItself) {
  QUIRE_NEED(test::real_model(test::kSmolLm));
  const json report =
      parsed(quire({"eval", "policies", "-m", test::real_model(test::kSmolLm), "--policies",
                    "snapkv", "--keep", "25%", "--tokens", "384", "--continuation", "24", "--seeds",
                    "2", "--json", "-t", std::to_string(test::test_threads())}));
  ASSERT_EQ(report.at("quire_json"), 1);
  EXPECT_TRUE(report.at("checks").at(0).at("pass")) << report.at("checks").at(0);
  std::size_t full = 0;
  for (const json& cell : report.at("cells")) {
    if (cell.at("policy") != "full") continue;
    ++full;
    const json& measures = cell.at("measures");
    EXPECT_EQ(measures.at("kl").at("value"), 0);
    // What the model can do with everything it read.
    if (cell.at("task") == "prose") continue;
    EXPECT_GE(measures.at("right").at("value"), cell.at("task") == "needle" ? 0.7 : 0.6) << cell;
  }
  EXPECT_EQ(full, 5u) << "prose, and two views of two tasks";
}

// What a line of tasks_bands.txt is about.
std::string arm_name(const json& arm) {
  const std::string view = arm.at("view").is_null() ? "-" : arm.at("view").get<std::string>();
  return arm.at("task").get<std::string>() + " " + view + " " + arm.at("policy").get<std::string>();
}

// Deterministic mode gives the same numbers on every machine that has the kernels; the bands leave
// room for a policy that changes a little, not for one that breaks.
TEST(EvalTasks, QualityStaysInItsRecordedBands) {
  QUIRE_NEED(test::real_model(test::kSmolLm));
  const json report =
      parsed(quire({"eval", "tasks", "-m", test::real_model(test::kSmolLm), "--quick", "--json",
                    "-t", std::to_string(test::test_threads())}));
  EXPECT_TRUE(report.at("checks").at(0).at("pass")) << report.at("checks").at(0);
  std::map<std::string, json> arms;
  for (const json& arm : report.at("arms")) arms[arm_name(arm)] = arm;

  std::ifstream bands("test/cli/tasks_bands.txt");
  std::size_t checked = 0;
  for (std::string line; std::getline(bands, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string task, view, policy, measure;
    double low = 0, high = 0;
    ASSERT_TRUE(words >> task >> view >> policy >> measure >> low >> high) << line;
    const auto arm = arms.find(task + " " + view + " " + policy);
    ASSERT_NE(arm, arms.end()) << line;
    const double value = arm->second.at(measure);
    EXPECT_GE(value, low) << line;
    EXPECT_LE(value, high) << line;
    ++checked;
  }
  EXPECT_GE(checked, arms.size()) << "every arm has a band";
}

// What must hold whatever roles are worth: thresholds on answers are for longer runs.
TEST(EvalRoles, KeysOutliveValuesAndRolesCostWhatTheyShould) {
  QUIRE_NEED(test::real_model(test::kSmolLm));
  const json report =
      parsed(quire({"eval", "roles", "-m", test::real_model(test::kSmolLm), "--quick", "--json",
                    "-t", std::to_string(test::test_threads())}));
  const std::set<std::string> firm = {"an arm that never shrinks is the full cache",
                                      "roles take the bytes of the score alone",
                                      "prose: roles are neutral",
                                      "needles in prose, aware: roles are neutral",
                                      "asked for the key of a number, aware: roles lose",
                                      "asked to list the keys, aware: roles lose",
                                      "indented: H2O alone keeps keys more often than values"};
  std::size_t held = 0;
  for (const json& check : report.at("checks")) {
    if (!firm.contains(check.at("name").get<std::string>())) continue;
    EXPECT_TRUE(check.at("pass")) << check;
    ++held;
  }
  EXPECT_EQ(held, firm.size());
}

TEST(EvalPaged, TheFullCacheEqualsItselfAndEveryPartIsMeasured) {
  QUIRE_NEED(test::real_model(test::kSmolLm));
  const json report =
      parsed(quire({"eval", "paged-eviction", "-m", test::real_model(test::kSmolLm), "--quick",
                    "--tokens", "512", "--json", "-t", std::to_string(test::test_threads())}));
  ASSERT_EQ(report.at("quire_json"), 1);
  EXPECT_TRUE(report.at("checks").at(0).at("pass")) << report.at("checks").at(0);
  EXPECT_TRUE(report.at("checks").at(1).at("pass")) << report.at("checks").at(1);
  EXPECT_FALSE(report.at("contrasts").empty());
  EXPECT_EQ(report.at("rates").size(), 6u);
  EXPECT_EQ(report.at("capacity").size(), 15u);
}

TEST(EvalVtoken, BlocksEqualTheOracleAndRepackingChangesNoBit) {
  QUIRE_NEED(test::real_model(test::kSmolLm));
  const json report =
      parsed(quire({"eval", "vtoken", "-m", test::real_model(test::kSmolLm), "--quick", "--json",
                    "-t", std::to_string(test::test_threads())}));
  const json& summary = report.at("summary");
  EXPECT_EQ(summary.at("oracle_mismatches"), 0);
  EXPECT_LE(summary.at("random_saving_error_points"), 1.0);
  EXPECT_LE(summary.at("control_saving"), 0.01);
  ASSERT_EQ(report.at("logits").size(), 2u);
  for (const json& one : report.at("logits")) {
    EXPECT_TRUE(one.at("bit_equal")) << one;
    EXPECT_GT(one.at("moved_entries"), 0) << one;
  }
}

}  // namespace
}  // namespace quire
