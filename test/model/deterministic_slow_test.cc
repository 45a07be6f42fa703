// Goal: with `deterministic` a real model's logits have the same bits cold, chunked, batched with
// neighbours and forked.
// Method: 540 tokens of real text, the logits of the last 28 memcmp-equal for every way to read
// them.

#include <gtest/gtest.h>

#include <cstring>

#include "model/real_model.h"
#include "model/running.h"

namespace quire {
namespace {

constexpr std::size_t kTokens = 540, kRows = 28;

class DeterministicSlow : public testing::Test {
 protected:
  void open() {
    ours_ = test::run_model({.path = test::real_model(test::kSmolLm),
                             .threads = test::test_threads(),
                             .deterministic = true},
                            {.budget_bytes = 128u << 20});
    ASSERT_NE(ours_.cache, nullptr);
    tokens_ = ours_.model->tokenize(test::real_text(0, 8 * kTokens), true, false);
    ASSERT_GE(tokens_.size(), kTokens);
    tokens_.resize(kTokens);
    whole_ = ours_.read(ours_.start(), tokens_, 512, kRows);
    ASSERT_EQ(whole_.size(), kRows * ours_.vocabulary());
  }
  void expect_equal(const std::vector<float>& logits, const std::string& how) const {
    ASSERT_EQ(logits.size(), whole_.size()) << how;
    EXPECT_EQ(std::memcmp(logits.data(), whole_.data(), logits.size() * sizeof(float)), 0) << how;
  }

  test::Running ours_;
  std::vector<model::Token> tokens_;
  std::vector<float> whole_;
};

TEST_F(DeterministicSlow, ChunkSizesChangeNoBit) {
  QUIRE_NEED(test::real_model(test::kSmolLm));
  open();
  for (const std::size_t chunk : {1u, 7u, 16u, 100u, 270u}) {
    const SequenceId sequence = ours_.start();
    expect_equal(ours_.read(sequence, tokens_, chunk, kRows), std::to_string(chunk));
    ASSERT_TRUE(ours_.cache->drop(sequence).ok());
  }
}

TEST_F(DeterministicSlow, NeighboursAndForksChangeNoBit) {
  QUIRE_NEED(test::real_model(test::kSmolLm));
  open();
  const SequenceId parent = ours_.start(), neighbour = ours_.start();
  (void)ours_.read(parent, std::span(tokens_).first(500), 100, 0);
  (void)ours_.read(neighbour, std::span(tokens_).subspan(100, 60), 60, 0);
  const SequenceId child = *ours_.cache->fork(parent);
  (void)ours_.read(child, std::span(tokens_).first(9), 9, 0);  // the parent must not notice
  const std::span<const model::Token> rest = std::span(tokens_).subspan(500);
  std::vector<float> logits;
  const model::Chunk chunks[] = {
      {.sequence = neighbour, .tokens = std::span(tokens_).first(3), .logit_rows = 2},
      {.sequence = parent, .tokens = rest, .logit_rows = kRows},
      {.sequence = child, .tokens = std::span(tokens_).first(1), .answer = true, .logit_rows = 1}};
  const Status status = ours_.model->forward(
      chunks, [&](std::size_t chunk, std::uint32_t, std::span<const float> row) {
        if (chunk == 1) logits.insert(logits.end(), row.begin(), row.end());
      });
  ASSERT_TRUE(status.ok()) << status.message();
  expect_equal(logits, "batched beside its own fork");
}

}  // namespace
}  // namespace quire
