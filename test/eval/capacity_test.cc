// Goal: a pool serves more requests at once where their holes become free blocks, every request
// ends, and the ratios of a report are those of its cells. Method: a made-up model through the
// engine, in pools too small for all.

#include "eval/capacity.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/fake_model.h"

namespace quire::eval {
namespace {

CapacityOptions options() {
  CapacityOptions options{.prompt = 128,
                          .answer = 128,
                          .requests = 8,
                          .seeds = 2,
                          .pools = {0.5},
                          .policies = {"random"}};
  options.make_sampler =
      [](const model::Model&,
         const model::SamplerOptions&) -> Result<std::unique_ptr<model::Sampler>> {
    return std::unique_ptr<model::Sampler>(std::make_unique<test::GreedySampler>());
  };
  for (int i = 0; i < 200; ++i) options.text += "hare " + std::to_string(i * i % 97) + " ran. ";
  return options;
}

Result<CapacityReport> run(const CapacityOptions& options) {
  test::FakeModel model;
  return measure_capacity(model, {.layers = test::fake_attention(), .max_rows = 128}, options);
}

TEST(Capacity, RepackingServesMoreRequestsTogether) {
  const Result<CapacityReport> report = run(options());
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->cells.size(), 2u * 3) << "seeds, arms";
  for (const CapacityCell& cell : report->cells) {
    EXPECT_GE(cell.concurrency, 1u) << cell.arm;
    EXPECT_GT(cell.tok_s, 0) << cell.arm;
    EXPECT_EQ(cell.preemptions + cell.pauses, 0u) << cell.arm;
    EXPECT_EQ(cell.moved_bytes > 0, cell.arm == "repack") << cell.arm;
  }
  EXPECT_GT(report->concurrency_vs_full, 1);
  EXPECT_GT(report->concurrency_vs_whole, 1);
  const CapacityCell *whole = nullptr, *repack = nullptr;
  for (const CapacityCell& cell : report->cells) {
    if (cell.seed == 0 && cell.arm == "whole") whole = &cell;
    if (cell.seed == 0 && cell.arm == "repack") repack = &cell;
  }
  ASSERT_TRUE(whole != nullptr && repack != nullptr);
  EXPECT_EQ(whole->pool_bytes, repack->pool_bytes);
  EXPECT_GT(repack->concurrency, whole->concurrency);
}

TEST(Capacity, WhatCannotBeMeasuredIsRefused) {
  CapacityOptions shorter = options();
  shorter.text = "too short";
  EXPECT_EQ(run(shorter).status().code(), Code::kInvalidArgument);
  CapacityOptions unknown = options();
  unknown.policies = {"best"};
  EXPECT_EQ(run(unknown).status().code(), Code::kInvalidArgument);
  std::atomic<bool> cancel{true};
  CapacityOptions stopped = options();
  stopped.cancel = &cancel;
  EXPECT_EQ(run(stopped).status().code(), Code::kCancelled);
}

}  // namespace
}  // namespace quire::eval
