// Goal: the runs leave the fewest blocks that an order-keeping repack can leave, move nothing that
//   is fixed, and move full blocks only where that frees another.
// Method: small random lanes against every way to cut them, large ones against the formula for
//   random holes, and cases by hand.
#include "core/repack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "support/seed.h"

namespace quire {
namespace {

// Blocks left when the blocks of each run move together.
std::uint32_t blocks_left(std::span<const Fill> blocks, std::span<const RepackRun> runs) {
  auto left = static_cast<std::uint32_t>(blocks.size());
  for (const RepackRun& run : runs) left -= run.count - run.targets;
  return left;
}

// The fewest blocks over all ways to leave or move each block, by trying all of them.
std::uint32_t fewest(std::span<const Fill> blocks, std::uint32_t block_tokens) {
  std::uint32_t best = static_cast<std::uint32_t>(blocks.size());
  for (std::uint32_t moved = 0; moved < 1u << blocks.size(); ++moved) {
    std::uint32_t left = 0, entries = 0;
    bool legal = true;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if ((moved >> b & 1) != 0) {
        legal = legal && blocks[b] != kFixed;
        entries += blocks[b];
        continue;
      }
      left += 1 + (entries + block_tokens - 1) / block_tokens;
      entries = 0;
    }
    left += (entries + block_tokens - 1) / block_tokens;
    if (legal) best = std::min(best, left);
  }
  return best;
}

TEST(RepackTest, LeavesTheFewestBlocksAndMovesNothingFixed) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  RepackPlanner planner;
  for (int round = 0; round < 3000; ++round) {
    const std::uint32_t block_tokens = 8u << random() % 4;
    std::vector<Fill> blocks(random() % 11);
    for (Fill& fill : blocks) {
      fill = random() % 6 == 0 ? kFixed : static_cast<Fill>(1 + random() % block_tokens);
    }
    const auto runs = planner.runs(blocks, block_tokens, 1.0);
    std::uint32_t end = 0;
    for (const RepackRun& run : runs) {
      ASSERT_GE(run.first, end);
      end = run.first + run.count;
      std::uint32_t entries = 0;
      for (std::uint32_t b = run.first; b < end; ++b) {
        ASSERT_NE(blocks[b], kFixed);
        entries += blocks[b];
      }
      ASSERT_EQ(run.entries, entries);
      ASSERT_EQ(run.targets, (entries + block_tokens - 1) / block_tokens);
      ASSERT_LT(run.targets, run.count);
    }
    ASSERT_LE(end, blocks.size());
    ASSERT_EQ(blocks_left(blocks, runs), fewest(blocks, block_tokens));
  }
}

TEST(RepackTest, AFullBlockMovesOnlyWhereThatFreesAnother) {
  RepackPlanner planner;
  const std::vector<Fill> bridge{4, 8, 4}, between{4, 4, 8, 4, 4}, four{4, 8, 8, 8, 8, 4};
  ASSERT_EQ(planner.runs(bridge, 8, 0.75).size(), 1u);
  EXPECT_EQ(planner.runs(bridge, 8, 0.75)[0].targets, 2u);
  const auto apart = planner.runs(between, 8, 0.75);
  ASSERT_EQ(apart.size(), 2u);
  EXPECT_EQ(apart[0].count, 2u);
  EXPECT_EQ(apart[1].first, 3u);
  EXPECT_TRUE(planner.runs(four, 8, 0.75).empty()) << "four full blocks copied for one";
  EXPECT_TRUE(planner.runs({}, 8, 0.75).empty());
}

// vtoken.md 5: holes at random leave 1 - (1 - e) / (1 - e^B) of the blocks that are not wholly
// dead.
TEST(RepackTest, RandomHolesSaveWhatTheFormulaSays) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  RepackPlanner planner;
  for (const std::uint32_t block_tokens : {8u, 16u, 32u, 64u}) {
    for (const double e : {0.3, 0.5, 0.7, 0.9}) {
      std::uint64_t before = 0, after = 0;
      for (int lane = 0; lane < 40; ++lane) {
        std::vector<Fill> blocks;
        for (std::uint32_t b = 0; b < 8192 / block_tokens; ++b) {
          Fill fill = 0;
          for (std::uint32_t i = 0; i < block_tokens; ++i) {
            fill += static_cast<double>(random() % 10000) >= e * 10000 ? 1 : 0;
          }
          if (fill > 0) blocks.push_back(fill);
        }
        before += blocks.size();
        after += blocks_left(blocks, planner.runs(blocks, block_tokens, 1.0));
      }
      const double saving = 1 - static_cast<double>(after) / static_cast<double>(before);
      EXPECT_NEAR(saving, 1 - (1 - e) / (1 - std::pow(e, block_tokens)), 0.01)
          << "e " << e << " block " << block_tokens;
    }
  }
}

}  // namespace
}  // namespace quire
