// Goal: the oracle counts what the definitions say, and the cache holds exactly that.
// Method: lanes by hand; a search of every way to merge short lanes; then random and clustered
// victims replayed in real caches of every kind and block size.

#include "eval/block_oracle.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/fake_model.h"
#include "eval/random.h"
#include "eval/replay.h"
#include "eval/sequences.h"

namespace quire::eval {
namespace {

TEST(BlockOracle, CountsALaneByHand) {
  // Blocks of 4 over 14 positions: {0}, {5, 6}, none, {12} in the open block.
  const LanePositions live = {{{0, 5, 6, 12}}};
  const OracleBlocks oracle = oracle_blocks(live, 14, 4, {.waste = 0, .fullness = 0.75f});
  EXPECT_EQ(oracle.never, 4u);
  EXPECT_EQ(oracle.whole, 3u);
  EXPECT_EQ(oracle.repack, 2u) << "three entries in one block, and the open one";
  EXPECT_DOUBLE_EQ(oracle.waste, 1 - 3.0 / 8);
  EXPECT_EQ(oracle_blocks(live, 14, 4, {.waste = 0.7f, .fullness = 1}).repack, 3u)
      << "not wasteful enough";
}

// All ways to cut a lane into runs that merge and blocks that stay, by bits: 1 = merges with the
// block before it.
std::uint32_t searched(const std::vector<std::uint32_t>& fills, std::uint32_t block_tokens,
                       std::uint32_t limit) {
  std::uint32_t best_cost = ~0u, best_moved = ~0u, best_blocks = 0;
  for (std::uint32_t cut = 0; cut < 1u << (fills.size() - 1); ++cut) {
    std::uint32_t cost = 0, moved = 0, blocks = 0;
    for (std::size_t i = 0; i < fills.size();) {
      std::size_t end = i + 1;
      std::uint32_t entries = fills[i], full = fills[i] > limit ? 1 : 0;
      for (; end < fills.size() && (cut >> (end - 1) & 1) != 0; ++end) {
        entries += fills[end];
        full += fills[end] > limit ? 1 : 0;
      }
      const std::uint32_t needed = (entries + block_tokens - 1) / block_tokens;
      const bool merges = end - i > 1;
      cost += 4 * needed + (merges ? full : 0);
      moved += merges ? entries : 0;
      blocks += needed;
      i = end;
    }
    if (cost < best_cost || (cost == best_cost && moved < best_moved)) {
      best_cost = cost;
      best_moved = moved;
      best_blocks = blocks;
    }
  }
  return best_blocks;
}

TEST(BlockOracle, FewestBlocksAreThoseOfASearch) {
  for (std::uint64_t i = 0; i < 400; ++i) {
    const Stream stream = Stream(23).of(i);
    const std::uint32_t block_tokens = i % 2 == 0 ? 4 : 8;
    std::vector<std::uint32_t> fills(1 + stream.below(11, 0));
    for (std::size_t b = 0; b < fills.size(); ++b) {
      fills[b] = static_cast<std::uint32_t>(1 + stream.below(block_tokens, 1 + b));
    }
    for (const double fullness : {1.0, 0.75, 0.5}) {
      const auto limit = static_cast<std::uint32_t>(fullness * block_tokens);
      EXPECT_EQ(fewest_blocks(fills, block_tokens, fullness), searched(fills, block_tokens, limit))
          << "case " << i << " at " << fullness;
    }
  }
  EXPECT_EQ(fewest_blocks({}, 8, 1), 0u);
}

// Victims with a seed: scattered, or in stretches.
Trace made_up(std::uint64_t seed, std::uint32_t length, double ratio, bool clustered) {
  Trace trace{.policy = "made up", .ratio = ratio, .length = length};
  trace.reviews.push_back({length, LanePositions(test::kLayers)});
  for (std::uint32_t layer = 0; layer < test::kLayers; ++layer) {
    trace.reviews[0].victims[layer].resize(test::kKvHeads);
    for (std::uint32_t head = 0; head < test::kKvHeads; ++head) {
      const Stream stream = Stream(seed).of(layer).of(head);
      for (Position p = 0; p < length; ++p) {
        if (stream.unit(clustered ? p / 11 : p) < ratio) {
          trace.reviews[0].victims[layer][head].push_back(p);
        }
      }
    }
  }
  return trace;
}

TEST(BlockOracle, IsWhatEveryKindOfCacheHolds) {
  for (const std::uint32_t block : {8u, 16u, 32u, 64u}) {
    for (const double ratio : {0.3, 0.7, 0.95}) {
      for (const bool clustered : {false, true}) {
        const Trace trace = made_up(block, 531, ratio, clustered);  // the last block still fills
        for (const Reclaim reclaim : {Reclaim::kNever, Reclaim::kWhole, Reclaim::kRepack}) {
          for (const float fullness : {0.75f, 1 - 1 / static_cast<float>(block)}) {
            const CacheOptions options{
                .layers = test::fake_attention(),
                .block_tokens = block,
                .max_rows = 64,
                .reclaim = reclaim,
                .repack = {.waste = 0.25f, .fullness = fullness, .watermark = 1}};
            const Result<Replayed> replayed = replay(trace, options);
            ASSERT_TRUE(replayed.ok()) << replayed.status().message();
            const OracleBlocks oracle =
                oracle_blocks(replayed->live, trace.length, block, options.repack);
            const std::uint64_t expected = reclaim == Reclaim::kNever   ? oracle.never
                                           : reclaim == Reclaim::kWhole ? oracle.whole
                                                                        : oracle.repack;
            EXPECT_EQ(replayed->blocks, expected)
                << "blocks of " << block << ", " << ratio << (clustered ? " clustered" : "");
            EXPECT_LE(replayed->blocks, replayed->blocks_peak);
          }
        }
      }
    }
  }
}

TEST(BlockOracle, RandomHolesFollowTheFormula) {
  const double e = 0.5;
  const Trace trace = made_up(3, 8192, e, false);
  LanePositions live(test::kLayers, std::vector<std::vector<Position>>(test::kKvHeads));
  for (std::uint32_t layer = 0; layer < test::kLayers; ++layer) {
    for (std::uint32_t head = 0; head < test::kKvHeads; ++head) {
      const auto& gone = trace.reviews[0].victims[layer][head];
      for (Position p = 0; p < trace.length; ++p) {
        if (!std::binary_search(gone.begin(), gone.end(), p)) live[layer][head].push_back(p);
      }
    }
  }
  for (const std::uint32_t block : {8u, 16u}) {
    const RepackOptions options{.waste = 0, .fullness = 1 - 1 / static_cast<float>(block)};
    const OracleBlocks oracle = oracle_blocks(live, trace.length, block, options);
    const double saving =
        1 - static_cast<double>(oracle.repack) / static_cast<double>(oracle.whole);
    EXPECT_NEAR(saving, 1 - (1 - e) / (1 - std::pow(e, block)), 0.01) << block;
  }
}

}  // namespace
}  // namespace quire::eval
