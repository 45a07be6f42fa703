// Goal: `quire eval tasks` and `quire eval roles` take files and gates, go on after a log, and say
// what is wrong with a file. Method: the built program with a tiny random model; its JSON is read.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/program.h"

namespace quire {
namespace {

using nlohmann::json;
using test::contains;
using test::folder;
using test::quire;
using test::Ran;

std::vector<std::string> arguments(std::vector<std::string> more) {
  std::vector<std::string> all = {"eval",
                                  "tasks",
                                  "-m",
                                  test::tiny_model(2048),
                                  "-t",
                                  "1",
                                  "--json",
                                  "--policies",
                                  "h2o",
                                  "--keep",
                                  "50%",
                                  "--seeds",
                                  "1",
                                  "--tokens",
                                  "160",
                                  "--recent",
                                  "16",
                                  "--questions",
                                  "2",
                                  "--text",
                                  folder().file("prose.txt")};
  std::string text;
  for (int i = 0; i < 80; ++i) text += "the inn had a thin hen. ";
  folder().write("prose.txt", text);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

json parsed(const Ran& ran) {
  EXPECT_EQ(ran.status, 0) << ran.err;
  return json::parse(ran.out, nullptr, false);
}

TEST(EvalTasks, AFileOfQuestionsIsMeasuredAlone) {
  const std::string data = folder().write(
      "mine.jsonl",
      R"({"document": "the hen is in the inn. the thin hen eats.", "questions": )"
      R"([{"prompt": "the hen is in", "answer": " the inn"}, {"prompt": "the thin hen", )"
      R"("answer": " eats"}]})"
      "\n");
  const json report = parsed(quire(arguments({"--data", data})));
  std::size_t full = 0;
  for (const json& arm : report.at("arms")) {
    EXPECT_EQ(arm.at("task"), "data");
    EXPECT_EQ(arm.at("n"), 2);
    if (arm.at("policy") != "full") continue;
    ++full;
    EXPECT_EQ(arm.at("kl"), 0);
    EXPECT_EQ(arm.at("harm"), 0);
  }
  EXPECT_EQ(full, 3u) << "blind, aware, second";
}

TEST(EvalTasks, AFaultInAFileIsNamed) {
  const std::string data = folder().write("bad.jsonl", "{\"document\": \"d\", \"questions\": 3}\n");
  const Ran ran = quire(arguments({"--data", data}));
  EXPECT_EQ(ran.status, 1);
  EXPECT_TRUE(contains(ran.err, "bad.jsonl:1: field questions is not a list")) << ran.err;
  EXPECT_EQ(quire(arguments({"--data", folder().file("none.jsonl")})).status, 1);
}

TEST(EvalTasks, TheSameCommandGoesOnAndOtherGatesNeedNoNewMeasurement) {
  const std::string log = folder().file("tasks.jsonl");
  const json first =
      parsed(quire(arguments({"--tasks", "json,single", "--blind-only", "-o", log})));
  const std::string lines = test::read_file(log);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3) << "settings, and an input each";
  const json gated = parsed(quire(
      arguments({"--tasks", "json,single", "--blind-only", "-o", log, "--gates", "open,closed"})));
  EXPECT_EQ(test::read_file(log), lines);
  std::size_t closed = 0;
  for (const json& arm : gated.at("arms")) closed += arm.at("gate") == "closed" ? 1 : 0;
  EXPECT_EQ(gated.at("arms").size(), first.at("arms").size() + closed);
  EXPECT_GT(closed, 0u);
}

std::vector<std::string> roles_arguments(std::vector<std::string> more) {
  std::vector<std::string> all = arguments({});
  // What the two commands share, and --quick; the rest is of tasks alone.
  std::vector<std::string> kept = {"eval", "roles", "--quick"};
  for (std::size_t i = 2; i < all.size(); ++i) {
    if (all[i] == "--policies" || all[i] == "--keep") {
      ++i;
    } else {
      kept.push_back(all[i] == "160" ? "400" : all[i]);
    }
  }
  kept.insert(kept.end(), more.begin(), more.end());
  return kept;
}

TEST(EvalRoles, FilesAreDocumentsAndALogIsGoneOnWith) {
  json records = json::array();
  for (int i = 0; i < 40; ++i) {
    records.push_back(
        {{"code", "c" + std::to_string(100 + i)}, {"size", 70000 + i}, {"mass", 90000 + i}});
  }
  const std::string data = folder().write("real.json", records.dump());
  const std::string log = folder().file("roles.jsonl");
  const json report = parsed(quire(roles_arguments({"--data", data, "-o", log})));
  std::set<std::string> tasks;
  for (const json& arm : report.at("arms")) tasks.insert(arm.at("task"));
  EXPECT_EQ(tasks,
            (std::set<std::string>{"json", "data", "prose", "needle", "json-keys", "json-list"}));
  EXPECT_EQ(report.at("diagnosis").size(), 2u);
  EXPECT_GT(report.at("gaps").size(), 0u);
  EXPECT_GT(report.at("checks").size(), 5u);
  const std::string lines = test::read_file(log);
  EXPECT_EQ(parsed(quire(roles_arguments({"--data", data, "-o", log}))), report);
  EXPECT_EQ(test::read_file(log), lines);
}

TEST(EvalRoles, AProbeIsOneMoreTellerOfRoles) {
  const std::string probe = folder().file("eval.probe");
  const Ran trained = quire({"train", "roles", "-m", test::tiny_model(2048), "--prompts", "10",
                             "--tokens", "512", "--epochs", "2", "--no-transfer", "-o", probe});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const json report = parsed(quire(roles_arguments({"--probe", probe})));
  std::map<std::string, std::size_t> labels;
  for (const json& arm : report.at("arms")) {
    const bool named = arm.contains("labels") && arm.at("labels").is_string();
    if (named) ++labels[arm.at("labels").get<std::string>()];
  }
  const auto by_probe = std::ranges::count_if(
      labels, [](const auto& entry) { return entry.first.starts_with("probe:eval.probe@"); });
  EXPECT_EQ(by_probe, 1) << report.at("arms").dump();
  const std::string broken = folder().write("broken.probe", "no probe");
  const Ran ran = quire(roles_arguments({"--probe", broken}));
  EXPECT_EQ(ran.status, 1);
  EXPECT_TRUE(contains(ran.err, "broken.probe: ")) << ran.err;
}

TEST(EvalRoles, WhatCannotBeIsNamed) {
  const std::string bad = folder().write("bad.json", "{\"a\": \n");
  const Ran ran = quire(roles_arguments({"--data", bad}));
  EXPECT_EQ(ran.status, 1);
  EXPECT_TRUE(contains(ran.err, "bad.json:1: neither JSON nor a line of JSON Lines")) << ran.err;
}

}  // namespace
}  // namespace quire
