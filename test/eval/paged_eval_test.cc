// Goal: the experiment compares equal entries at equal bytes, its speed rows review and count what
// they hold, logs are continued, and the sign test's verdict is that of its intervals. Method: a
// made-up model over real caches, and results written by hand.

#include "eval/paged_eval.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/fake_model.h"
#include "model/running.h"

namespace quire::eval {
namespace {

std::string prose() {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "a hare met " + std::to_string(i * i % 97) + " hounds. ";
  return text;
}

class PagedEval : public testing::Test {
 protected:
  PagedEval() {
    std::ofstream(weights_.path()) << "weights";
    options_ = {
        .quality = {.model_path = weights_.path(),
                    .tasks = {Task::kProse, Task::kNeedle},
                    .seeds = 2,
                    .inputs = {.tokens = 512, .continuation = 40, .needles = 2},
                    .text = prose(),
                    .text_name = "made up"},
        .keeps = {128, 1024},
        .blocks = {8, 16},
        .rates = {.sequences = 2, .steps = 16, .rounds = 2},
        .capacity = {.text = prose(), .prompt = 96, .answer = 64, .requests = 4, .pools = {0.5}}};
    options_.capacity.make_sampler =
        [](const model::Model&,
           const model::SamplerOptions&) -> Result<std::unique_ptr<model::Sampler>> {
      return std::unique_ptr<model::Sampler>(std::make_unique<test::GreedySampler>());
    };
  }

  Result<PagedReport> run() {
    if (Status status = arrange(options_); !status.ok()) return status;
    return evaluate_paged(model_, {.layers = test::fake_attention()}, options_);
  }

  const test::TempFile weights_{"weights.bin"}, log_{"paged.jsonl"}, rates_{"paged.jsonl.rates"};
  test::FakeModel model_;
  PagedOptions options_;
};

TEST_F(PagedEval, ArmsKeepEqualEntriesAndTakeEqualBytes) {
  const Result<PagedReport> report = run();
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->quality.inputs, 2u * 2 * 2) << "tasks, seeds, blocks";
  std::size_t compared = 0;
  for (const Cell& cell : report->quality.summary.cells) {
    if (cell.arm.policy == kFull) {
      EXPECT_EQ(cell.measure("kl")->estimate.value, 0);
      continue;
    }
    EXPECT_EQ(cell.entries, 128) << cell.arm.policy;
    EXPECT_LE(cell.off_target, std::max(kBytesTolerance, cell.grain)) << cell.arm.policy;
    ++compared;
  }
  // Ten arms: three anchors, two norms, three scopes, the inverse and random blocks.
  EXPECT_EQ(compared, 10u * 2 * 2) << "arms, blocks, tasks";
  for (const Check& check : report->checks) {
    if (check.name.starts_with("arms of one share") || check.name.starts_with("an arm that")) {
      EXPECT_TRUE(check.pass) << check.found;
    }
    EXPECT_FALSE(check.name.starts_with("hindsight"));
  }
  EXPECT_EQ(report->rates.size(), (1u + 5) * 2) << "policies, blocks";
  for (const RateCell& cell : report->rates) {
    EXPECT_EQ(cell.tok_s.size(), 2u);
    const std::uint64_t lanes = test::kLayers * test::kKvHeads;
    const auto dense = static_cast<double>(lanes * cell.keep / cell.block_tokens);
    EXPECT_GE(cell.blocks, dense) << cell.policy;
    // Blocks over three quarters full stay as they are, and those of the sinks and the newest.
    EXPECT_LE(cell.blocks, cell.policy == kFull ? dense : dense * 4 / 3 + 2.0 * lanes)
        << cell.policy;
    EXPECT_EQ(cell.review_share > 0, cell.policy != kFull) << cell.policy;
  }
  EXPECT_EQ(report->capacity.cells.size(), 3u * 5);
}

TEST_F(PagedEval, ALogIsContinuedAndReportsAreWritten) {
  options_.quality.log_path = log_.path();
  options_.quality.tasks = {Task::kProse};
  options_.blocks = {16};
  const Result<PagedReport> first = run();
  ASSERT_TRUE(first.ok()) << first.status().message();
  const Result<PagedReport> again = run();
  ASSERT_TRUE(again.ok()) << again.status().message();
  Json one = json_of(*first), two = json_of(*again);
  one.erase("capacity");
  two.erase("capacity");
  EXPECT_EQ(one.dump(), two.dump()) << "the log has it all";
  EXPECT_EQ(one.at("quire_json"), 1);
  for (const char* key : {"cells", "contrasts", "sign_cells", "rates", "checks"}) {
    EXPECT_TRUE(one.contains(key)) << key;
  }
  const std::string directory = log_.path() + ".report";
  ASSERT_TRUE(write_report(*first, directory).ok());
  for (const char* name : {"paged-eviction.md", "paged-eviction.csv", "plots/paged-rates.svg",
                           "plots/paged-prose-16-kl.svg"}) {
    EXPECT_TRUE(std::filesystem::exists(directory + "/" + name)) << name;
  }
  std::filesystem::remove_all(directory);
  EXPECT_NE(table_of(*first).find("sign test"), std::string::npos);
  options_.rates.steps = 32;
  EXPECT_EQ(run().status().code(), Code::kInvalidArgument) << "the log of another run";
}

TEST_F(PagedEval, WhatCannotBeMeasuredIsRefused) {
  options_.keeps = {512, 4096};
  const Status status = run().status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("512 tokens"), std::string::npos) << status.message();
  std::vector<LayerShape> windows = test::fake_attention();
  windows[0].window = 64;
  EXPECT_EQ(measure_decode_rates(model_, {.layers = windows}, options_.rates).status().code(),
            Code::kUnsupported);
  options_.rates.blocks = {16};
  options_.rates.keeps = {64};
  options_.rates.policies = {"best"};
  EXPECT_EQ(measure_decode_rates(model_, {.layers = test::fake_attention()}, options_.rates)
                .status()
                .code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace quire::eval
