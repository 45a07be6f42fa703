// Goal: an evaluation of tasks measures every task in every view, its log serves any gates, and its
// reports say what the issue's consumers read. Method: a made-up model over a real cache; its steps
// are counted.

#include "eval/tasks_eval.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "engine/fake_model.h"
#include "eval/data_file.h"
#include "model/running.h"

namespace quire::eval {
namespace {

class TasksEval : public testing::Test {
 protected:
  TasksEval() {
    std::ofstream(weights_.path()) << "weights";
    std::string text;
    for (int i = 0; i < 400; ++i) text += "a hare met " + std::to_string(i * i % 97) + " hounds. ";
    options_.quality = {.model_path = weights_.path(),
                        .policies = {"h2o", "snapkv:window=16"},
                        .keeps = {0.25},
                        .tasks = {Task::kDrift, Task::kSingle, Task::kJson},
                        .seeds = 2,
                        .inputs = {.tokens = 400, .continuation = 24, .needles = 2, .questions = 2},
                        .text = text,
                        .text_name = "made up",
                        .oracle = false,
                        .recent = 16};
  }

  TasksReport ran() {
    TasksOptions options = options_;
    arrange(options);
    const Result<TasksReport> report =
        evaluate_tasks(model_, {.layers = test::fake_attention()}, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : TasksReport{};
  }

  const test::TempFile weights_{"weights.bin"}, log_{"tasks.jsonl"};
  test::FakeModel model_;
  TasksOptions options_;
};

TEST_F(TasksEval, EveryTaskIsMeasuredInItsViews) {
  options_.quality.tasks.clear();
  for (const TaskInfo& info : kTasks) options_.quality.tasks.push_back(info.task);
  options_.quality.data = *read_documents(
      R"({"document": "a hare met 7 hounds.", "questions": [{"prompt": "a hare met", "answer": " 7"}]})",
      "f");
  options_.quality.seeds = 1;
  options_.quality.keeps = {0.5};
  std::set<std::string> seen;
  for (const Cell& cell : ran().quality.summary.cells) {
    seen.insert(cell.task_name());
    const Measure& kl = *cell.measure("kl");
    EXPECT_EQ(kl.estimate.value == 0, cell.arm.policy == kFull)
        << cell.task_name() << " " << cell.arm.policy;
  }
  for (const TaskInfo& info : kTasks) {
    const std::string name = info.name;
    if (continues(info.task)) {
      EXPECT_TRUE(seen.contains(name)) << name;
      continue;
    }
    EXPECT_TRUE(seen.contains(name + ", blind")) << name;
    EXPECT_TRUE(seen.contains(name + ", aware")) << name;
    const bool one =
        info.task == Task::kSingle || info.task == Task::kData || info.task == Task::kChain;
    EXPECT_EQ(seen.contains(name + ", second"), !one) << name;
  }
}

TEST_F(TasksEval, ALogServesAnyGates) {
  options_.quality.log_path = log_.path();
  const TasksReport plain = ran();
  const std::size_t steps = model_.steps.size();
  options_.gates = {"open", "closed", "random:50%"};
  const TasksReport gated = ran();
  EXPECT_EQ(model_.steps.size(), steps) << "nothing was measured again";

  const auto arm_cells = [](const TasksReport& report, const char* gate) {
    std::vector<const Cell*> cells;
    for (const Cell& cell : report.quality.summary.cells) {
      if (cell.arm.gate == gate && cell.arm.policy != kFull) cells.push_back(&cell);
    }
    return cells;
  };
  const auto before = arm_cells(plain, "open"), open = arm_cells(gated, "open");
  ASSERT_EQ(before.size(), open.size());
  for (std::size_t i = 0; i < open.size(); ++i) {
    EXPECT_EQ(before[i]->measure("kl")->estimate.value, open[i]->measure("kl")->estimate.value);
  }
  for (const Cell* cell : arm_cells(gated, "closed")) {
    EXPECT_EQ(cell->measure("kl")->estimate.value, 0);
    EXPECT_DOUBLE_EQ(cell->bytes_share, 1);
    EXPECT_EQ(cell->open_share, 0);
  }
  EXPECT_EQ(arm_cells(gated, "random:50%").size(), open.size());
}

TEST_F(TasksEval, ArmsSayWhatTheyAre) {
  options_.gates = {"open", "closed"};
  const Json report = json_of(ran());
  EXPECT_EQ(report.at("quire_json"), 1);
  std::set<std::string> policies;
  for (const Json& arm : report.at("arms")) {
    for (const char* key :
         {"task", "policy", "keep", "gate", "kv_type", "n", "em", "em_full", "retained", "harm",
          "logprob", "nll", "kl", "bytes", "ci", "view", "open_rate", "documents", "entries"}) {
      ASSERT_TRUE(arm.contains(key)) << key;
    }
    policies.insert(arm.at("policy").get<std::string>());
    EXPECT_EQ(arm.at("kv_type"), "f16");
    const bool text = arm.at("view").is_null();
    EXPECT_EQ(text, arm.at("task") == "drift");
    EXPECT_EQ(arm.at("em").is_null(), text);
    EXPECT_EQ(arm.at("nll").is_null(), !text);
    EXPECT_EQ(arm.at("documents"), 2);
    EXPECT_EQ(arm.at("n"), arm.at("task") == "json" ? 4 : 2);
    EXPECT_EQ(arm.at("ci").contains("harm"), !text);
    EXPECT_TRUE(text || arm.at("ci").at("harm").at("wilson").is_array());
    EXPECT_TRUE(arm.at("ci").at("kl").at("documents").is_array()) << arm;
  }
  for (const char* anchor : {"full", "random", "prompt-random", "sink-recency", "h2o"}) {
    EXPECT_TRUE(policies.contains(anchor)) << anchor;
  }
}

TEST_F(TasksEval, ChecksAreThoseThatApply) {
  const auto names = [&] {
    std::vector<std::string> all;
    for (const Check& check : ran().quality.summary.checks) {
      EXPECT_TRUE(check.pass || check.name == kOracleCheck) << check.name;
      all.push_back(check.name);
    }
    return all;
  };
  EXPECT_EQ(names().size(), 1u) << "the full cache is itself";
  options_.quality.oracle = true;
  EXPECT_EQ(names().size(), 2u);
}

TEST_F(TasksEval, TheReportHasAPageALineAMeasureAndPlots) {
  TasksReport report = ran();
  report.quality.model_file = "fake.gguf";
  const std::string directory = log_.path() + ".report";
  ASSERT_TRUE(write_report(report, directory).ok());
  const auto text_of = [&](const std::string& name) {
    std::ifstream in(directory + "/" + name);
    return std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  };
  const std::string page = text_of("tasks.md");
  EXPECT_NE(page.find("\n## fake.gguf\n"), std::string::npos);
  EXPECT_NE(page.find("\n### Checks\n"), std::string::npos) << "inside the model's section";
  for (const char* name : {"drift-16-kl", "json-blind-16-log_p", "json-second-16-retained"}) {
    const std::string plot = "plots/tasks-fake-" + std::string(name) + ".svg";
    EXPECT_NE(page.find(plot), std::string::npos) << plot;
    EXPECT_TRUE(text_of(plot).starts_with("<svg ")) << plot;
  }
  // Two measures of a text that goes on (nll, kl), six of answers.
  std::size_t lines = 1;
  for (const Cell& cell : report.quality.summary.cells) lines += cell.view ? 6 : 2;
  const std::string csv = text_of("tasks-fake.csv");
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')), lines);
  std::filesystem::remove_all(directory);
  EXPECT_EQ(write_report(report, "/proc/nowhere").code(), Code::kIo);
  EXPECT_NE(table_of(report).find("json, second, blocks of 16"), std::string::npos);
}

TEST_F(TasksEval, UnknownGatesAreRefusedBeforeAnythingIsMeasured) {
  options_.gates = {"page"};
  const Result<TasksReport> report =
      evaluate_tasks(model_, {.layers = test::fake_attention()}, options_);
  EXPECT_EQ(report.status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(model_.steps.empty());
}

}  // namespace
}  // namespace quire::eval
