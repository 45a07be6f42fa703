// Goal: an evaluation compares arms at equal bytes, finds the full cache equal to itself, continues
// a log without doing anything twice, and reports what it found. Method: a made-up model over a
// real cache; its steps are counted.

#include "eval/policies_eval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "engine/fake_model.h"
#include "eval/result_json.h"
#include "model/running.h"

namespace quire::eval {
namespace {

std::string prose() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "a hare met " + std::to_string(i * i % 97) + " hounds. ";
  return text;
}

class PoliciesEval : public testing::Test {
 protected:
  PoliciesEval() {
    std::ofstream(weights_.path()) << "weights";
    options_ = {.model_path = weights_.path(),
                .policies = {"h2o:recent=16", "snapkv:window=16,recent=16"},
                .keeps = {0.5, 0.25},
                .blocks = {8},
                .tasks = {Task::kProse, Task::kNeedle, Task::kJson},
                .seeds = 2,
                .inputs = {.tokens = 320, .continuation = 40, .needles = 2, .questions = 2},
                .text = prose(),
                .text_name = "made up"};
  }

  Result<PoliciesReport> run() {
    return evaluate_policies(model_, {.layers = test::fake_attention()}, options_);
  }
  PoliciesReport ran() {
    Result<PoliciesReport> report = run();
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *std::move(report) : PoliciesReport{};
  }

  const test::TempFile weights_{"weights.bin"}, log_{"eval.jsonl"};
  test::FakeModel model_;
  PoliciesOptions options_;
};

TEST_F(PoliciesEval, ArmsOfOneShareTakeEqualBytesAndTheFullCacheIsItself) {
  const PoliciesReport report = ran();
  EXPECT_EQ(report.inputs, 6u);
  for (const Check& check : report.summary.checks) {
    if (check.name.starts_with("an arm that never")) {
      EXPECT_TRUE(check.pass) << check.found;
    }
  }
  std::size_t compared = 0;
  for (const Cell& cell : report.summary.cells) {
    const std::string name = cell.task_name() + " " + cell.arm.policy;
    if (cell.arm.policy == kFull) {
      EXPECT_EQ(cell.measure("kl")->estimate.value, 0) << name;
      EXPECT_NEAR(cell.bytes_share, 1, 1e-9);
      continue;
    }
    EXPECT_TRUE(cell.reachable) << name;
    // A block of 8 in every lane is up to a tenth of the smaller share.
    EXPECT_LE(cell.off_target, 0.06) << name << " at " << cell.arm.keep;
    EXPECT_GT(cell.measure("kl")->estimate.value, 0) << name;
    if (cell.over_random) ++compared;
  }
  // The oracle, the anchors of this build besides random, and two policies, at two shares each, in
  // prose and two views of two tasks.
  const std::size_t anchors = make_policy("prompt-random").ok() ? 2 : 1;
  EXPECT_EQ(compared, (1 + anchors + 2) * 2 * 5);
}

TEST_F(PoliciesEval, ASmallerShareKeepsFewerEntriesOfEveryPolicy) {
  options_.tasks = {Task::kProse};
  const PoliciesReport report = ran();
  for (const Cell& cell : report.summary.cells) {
    if (cell.arm.policy == kFull) continue;
    EXPECT_NEAR(cell.bytes_share, cell.arm.keep, 0.02) << cell.arm.policy;
    for (const Cell& other : report.summary.cells) {
      if (other.arm.policy != cell.arm.policy || other.arm.keep >= cell.arm.keep) continue;
      EXPECT_LT(other.entries, cell.entries) << cell.arm.policy;
      EXPECT_LT(other.bytes, cell.bytes) << cell.arm.policy;
    }
  }
}

TEST_F(PoliciesEval, ATaskThatHasEnoughGetsNoMoreDocuments) {
  options_.seeds = 3;
  options_.enough = [](Task task, const std::vector<InputResult>& measured) {
    return task == Task::kJson && std::ranges::count(measured, task, &InputResult::task) == 1;
  };
  std::map<Task, int> inputs;
  for (const InputResult& input : ran().results) ++inputs[input.task];
  EXPECT_EQ(inputs, (std::map<Task, int>{{Task::kProse, 3}, {Task::kNeedle, 3}, {Task::kJson, 1}}));
}

TEST_F(PoliciesEval, ALogIsContinuedAndGivesTheSameReport) {
  options_.log_path = log_.path();
  const std::string whole = json_of(ran()).dump();
  const std::size_t steps = model_.steps.size();
  EXPECT_EQ(json_of(ran()).dump(), whole);
  EXPECT_EQ(model_.steps.size(), steps) << "nothing was measured again";

  // Without its last two lines, only these inputs run.
  std::ifstream in(log_.path());
  std::string text, line;
  for (int i = 0; i < 5 && std::getline(in, line); ++i) text += line + "\n";
  in.close();
  std::ofstream(log_.path()) << text;
  EXPECT_EQ(json_of(ran()).dump(), whole);
  EXPECT_GT(model_.steps.size(), steps);
  EXPECT_LT(model_.steps.size(), 2 * steps);

  options_.inputs.tokens = 321;
  EXPECT_EQ(run().status().code(), Code::kInvalidArgument);
}

TEST_F(PoliciesEval, CancellingKeepsWhatWasFinished) {
  options_.log_path = log_.path();
  std::atomic<bool> cancel{false};
  options_.cancel = &cancel;
  options_.on_progress = [&](double share, const std::string&) { cancel = share > 0.5; };
  EXPECT_EQ(run().status().code(), Code::kCancelled);
  std::ifstream in(log_.path());
  std::string line;
  int lines = 0;
  while (std::getline(in, line)) ++lines;
  EXPECT_EQ(lines, 1 + 3);
}

TEST_F(PoliciesEval, TooShortATextIsRefusedWithTheNumbers) {
  options_.seeds = 1000;
  const Status status = run().status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("need 360000"), std::string::npos) << status.message();
  options_.seeds = 2;
  options_.tasks = {Task::kJson};
  options_.text.clear();
  EXPECT_EQ(run().status().code(), Code::kInvalidArgument);
}

TEST_F(PoliciesEval, ABudgetTooSmallIsARefusal) {
  options_.budget_bytes = std::size_t{256} << 10;
  EXPECT_EQ(run().status().code(), Code::kOutOfMemory);
}

TEST_F(PoliciesEval, LinesOfTheLogAreReadBack) {
  options_.log_path = log_.path();
  ran();
  Result<Log> log = Log::open(log_.path(), json_of(ran()));
  EXPECT_FALSE(log.ok()) << "another header";
  std::ifstream in(log_.path());
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    const std::optional<InputResult> result = result_of(Json::parse(line));
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(to_json(*result).dump(), line);
  }
  EXPECT_FALSE(result_of(Json::parse(R"({"task":"prose"})")).has_value());
}

TEST_F(PoliciesEval, ThePageHasAPlotForEveryTableAndACsvLineForEveryMeasure) {
  options_.keeps = {0.5};
  const PoliciesReport report = ran();
  const std::string directory = log_.path() + ".report";
  ASSERT_TRUE(write_report(report, directory).ok());
  const auto text_of = [&](const std::string& name) {
    std::ifstream in(directory + "/" + name);
    return std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  };
  const std::string page = text_of("policies.md");
  for (const char* name : {"prose-8-kl", "needle-blind-8-log_p", "json-aware-8-retained"}) {
    EXPECT_NE(page.find("plots/" + std::string(name) + ".svg"), std::string::npos) << name;
    EXPECT_TRUE(text_of("plots/" + std::string(name) + ".svg").starts_with("<svg ")) << name;
  }
  const std::string csv = text_of("policies.csv");
  std::size_t measures = 0;
  for (const Cell& cell : report.summary.cells) {
    measures += cell.measures.size() + (cell.over_random ? 1 : 0);
  }
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')), 1 + measures);
  std::filesystem::remove_all(directory);
  EXPECT_EQ(write_report(report, "/proc/nowhere").code(), Code::kIo);
  EXPECT_NE(table_of(report).find("needle, aware, blocks of 8"), std::string::npos);
}

}  // namespace
}  // namespace quire::eval
