// Goal: as many requests run together as their prompts and answers have cells, every request is
// answered from its own tokens, and ratios are those of the cells. Method: a made-up peer that
// counts its cells and refuses what passes them.

#include "eval/peer_capacity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "engine/budget.h"
#include "engine/fake_model.h"

namespace quire::eval {
namespace {

using model::PeerRow;
using model::Token;

// Says of each row the token after it; remembers what every sequence was shown.
class CountingPeer final : public model::Peer {
 public:
  Status open(std::uint32_t, std::uint32_t, std::uint32_t) override { return {}; }
  Status open_shared(std::uint32_t sequences, std::uint32_t cells, std::uint32_t rows) override {
    sequences_ = sequences;
    cells_ = cells;
    rows_most_ = rows;
    held_.clear();
    ++opened;
    return {};
  }
  Status read(std::uint32_t, std::span<const Token>, std::uint32_t) override { return {}; }
  Status step(std::span<const Token>) override { return {}; }
  Status step(std::span<const PeerRow> rows) override {
    EXPECT_LE(rows.size(), rows_most_);
    wanted_.clear();
    for (const PeerRow& row : rows) {
      EXPECT_LT(row.sequence, sequences_);
      std::vector<Token>& held = held_[row.sequence];
      if (row.wanted) wanted_.push_back(row.token);
      if (!held.empty() && row.wanted && held.size() >= prompt) {
        EXPECT_EQ(row.token, (held.back() + 1) % 48) << "the answer to its own newest token";
      }
      held.push_back(row.token);
    }
    std::size_t cells = 0;
    for (const auto& [sequence, held] : held_) cells += held.size();
    most_cells = std::max(most_cells, cells);
    if (cells > cells_) return {Code::kOutOfMemory, "no cells"};
    std::size_t running = 0;
    for (const auto& [sequence, held] : held_) running += held.empty() ? 0 : 1;
    most_running = std::max(most_running, running);
    return {};
  }
  std::span<const float> logits(std::uint32_t index) override {
    logits_.fill(0);
    logits_[static_cast<std::size_t>((wanted_[index] + 1) % 48)] = 1;
    return logits_;
  }
  void cut(std::uint32_t sequence, std::uint32_t tokens) override {
    EXPECT_EQ(tokens, 0u);
    EXPECT_EQ(held_[sequence].size(), prompt + answer - 1) << "the last token is not read";
    held_[sequence].clear();
    ++finished;
  }
  void copy(std::uint32_t, std::uint32_t) override {}
  void pause() override {}
  void resume() override {}
  std::string system_info() const override { return {}; }

  std::size_t prompt = 24, answer = 8, most_cells = 0, most_running = 0, finished = 0, opened = 0;

 private:
  std::uint32_t sequences_ = 0, cells_ = 0, rows_most_ = 0;
  std::map<std::uint32_t, std::vector<Token>> held_;
  std::vector<Token> wanted_;
  std::array<float, 48> logits_{};
};

std::vector<Token> text(std::size_t tokens) {
  std::vector<Token> found;
  for (std::size_t i = 0; i < tokens; ++i) found.push_back(static_cast<Token>(i * i % 47));
  return found;
}

CapacityOptions options() {
  return {.prompt = 24, .answer = 8, .requests = 10, .seeds = 2, .pools = {0.35, 1}};
}

const CacheOptions kLike{.layers = test::fake_attention()};

CapacityReport ours() {
  CapacityReport report;
  for (const double pool : {0.35, 1.0}) {
    for (const std::uint32_t seed : {0u, 1u}) {
      report.cells.push_back({.policy = "random",
                              .arm = "repack",
                              .pool = pool,
                              .seed = seed,
                              .concurrency = pool == 1 ? 10u : 6u,
                              .tok_s = 1e9});
    }
  }
  return report;
}

TEST(PeerCapacity, RunsWhatTheCellsHoldAndAnswersEveryRequest) {
  CountingPeer peer;
  const std::vector<Token> tokens = text(500);
  const Result<PeerCapacity> found = measure_peer_capacity(peer, tokens, kLike, options(), ours());
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->cells.size(), 4u) << "pools, seeds";
  EXPECT_EQ(found->cells[0].concurrency, 3u) << "112 tokens, 32 a request";
  EXPECT_EQ(found->cells[1].concurrency, 10u);
  EXPECT_EQ(peer.most_running, 10u);
  EXPECT_EQ(peer.finished, 4u * 10);
  EXPECT_EQ(peer.opened, 4u);
  for (const CapacityCell& cell : found->cells) {
    EXPECT_GT(cell.tok_s, 0);
    EXPECT_GT(cell.latency_p95, 0);
    EXPECT_EQ(cell.arm, "llama");
    EXPECT_NEAR(static_cast<double>(cell.pool_bytes),
                cell.pool * 320 * static_cast<double>(engine::kv_bytes_per_token(kLike)), 1);
  }
  EXPECT_EQ(found->concurrency, 1) << "6 to 3, 10 to 10";
  EXPECT_GT(found->throughput, 1);
  const std::string page = page_of(*found, ours());
  EXPECT_NE(page.find("| 35 % | - | llama | 3 | 1.00 |"), std::string::npos) << page;
  EXPECT_NE(page.find("| 35 % | random | repack | 6 | 2.00 |"), std::string::npos) << page;
  EXPECT_EQ(json_of(*found).size(), 4u);
}

TEST(PeerCapacity, WhatCannotBeMeasuredIsRefused) {
  CountingPeer peer;
  CapacityOptions small = options();
  small.pools = {0.05};
  const std::vector<Token> tokens = text(500);
  EXPECT_EQ(measure_peer_capacity(peer, tokens, kLike, small, ours()).status().code(),
            Code::kOutOfMemory);
  EXPECT_EQ(measure_peer_capacity(peer, text(24), kLike, options(), ours()).status().code(),
            Code::kInvalidArgument);
  std::atomic<bool> cancel{true};
  CapacityOptions stopped = options();
  stopped.cancel = &cancel;
  EXPECT_EQ(measure_peer_capacity(peer, tokens, kLike, stopped, ours()).status().code(),
            Code::kCancelled);
}

}  // namespace
}  // namespace quire::eval
