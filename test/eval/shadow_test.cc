// Goal: a shadow's bytes are those of the sequence it stands for.
// Method: a real sequence alone in its cache, read by a made-up model and shrunk by every policy of
// the list; its statistics against the shadow's.

#include "eval/shadow.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/fake_model.h"
#include "eval/sequences.h"

namespace quire::eval {
namespace {

CacheOptions options(std::uint32_t block_tokens) {
  return {
      .layers = test::fake_attention(),
      .budget_bytes = std::size_t{8} << 20,
      .block_tokens = block_tokens,
      .max_rows = 64,
      .repack = {.waste = 0, .fullness = 1 - 1 / static_cast<float>(block_tokens), .watermark = 1}};
}

std::vector<model::Token> text(std::uint32_t length) {
  std::vector<model::Token> tokens(length);
  for (std::uint32_t i = 0; i < length; ++i) tokens[i] = static_cast<model::Token>(i * 7 % 40);
  return tokens;
}

TEST(Shadow, HasTheBytesOfASequenceAlone) {
  constexpr std::uint32_t kLength = 333;
  for (const std::uint32_t block_tokens : {8u, 32u}) {
    Result<Shadow> shadow = Shadow::open(options(block_tokens), kLength);
    ASSERT_TRUE(shadow.ok()) << shadow.status().message();
    for (const PolicyInfo& info : list_policies()) {
      const Result<Policy> policy = make_policy(info.name);
      ASSERT_TRUE(policy.ok());
      auto cache = Cache::open(options(block_tokens));
      ASSERT_TRUE(cache.ok());
      test::FakeModel model;
      ASSERT_TRUE(model.attach(**cache).ok());
      const Result<Held> sequence = Held::start(**cache, policy->needs);
      ASSERT_TRUE(sequence.ok());
      ASSERT_TRUE(tell_roles(model, **cache, *sequence, policy->needs, text(kLength)).ok());
      const bool last = policy->needs.tap == Tap::kLastRows;
      const std::uint32_t window = last ? policy->needs.window : 0;
      ASSERT_TRUE(read(model, *sequence, text(kLength), {.chunk = 50, .window_rows = window}).ok());
      const Result<ShrinkReport> shrunk = (*cache)->shrink(sequence->id(), *policy, 100);
      ASSERT_TRUE(shrunk.ok()) << info.name << ": " << shrunk.status().message();
      repack_all(**cache);
      const Result<LanePositions> kept = live_positions(**cache, sequence->id());
      ASSERT_TRUE(kept.ok());
      const Result<SequenceStats> there = (*cache)->stats(sequence->id());
      const Result<SequenceStats> here = shadow->measure(policy->needs, kLength, window, *kept);
      ASSERT_TRUE(here.ok()) << here.status().message();
      EXPECT_EQ(here->bytes, there->bytes) << info.name << ", blocks of " << block_tokens;
      EXPECT_EQ(here->blocks, there->blocks) << info.name;
      EXPECT_EQ(here->tokens_kept_mean, there->tokens_kept_mean) << info.name;
      EXPECT_EQ(here->bytes_shared, 0u);
    }
    EXPECT_EQ(shadow->cache().stats().sequences, 0u);
  }
}

TEST(Shadow, NothingEvictedIsTheFullCache) {
  Result<Shadow> shadow = Shadow::open(options(16), 200);
  ASSERT_TRUE(shadow.ok());
  std::vector<Position> all(200);
  std::iota(all.begin(), all.end(), Position{0});
  const LanePositions kept(test::kLayers, std::vector(test::kKvHeads, all));
  const Result<SequenceStats> full = shadow->measure({}, 200, 0, kept);
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->tokens_kept_min, 200u);
  EXPECT_GE(full->bytes, 208u * test::kLayers * test::kKvHeads * test::kHeadSize * 2 * 2);
}

}  // namespace
}  // namespace quire::eval
