// Goal: attention over the paged cache is the dense formula, and its bits depend on nothing but the
//   text: not on chunks, threads, batch neighbours, block size, forks, or windows already passed.
// Method: a double-precision dense reference with a tolerance; memcmp between runs, at every
//   instruction set the machine has.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "cache/rig.h"

namespace quire {
namespace {

using namespace test;

constexpr std::size_t kBudget = 24 << 20;

CacheOptions options(Isa isa, std::uint32_t block_tokens = 16, KvType type = KvType::kF16) {
  return {.layers = mixed_layers(),
          .budget_bytes = kBudget,
          .key_type = type,
          .value_type = type,
          .block_tokens = block_tokens,
          .max_rows = 2048,
          .isa = isa};
}

void expect_same_bits(const Outputs& a, const Outputs& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t l = 0; l < a.size(); ++l) {
    ASSERT_EQ(a[l].size(), b[l].size());
    EXPECT_EQ(std::memcmp(a[l].data(), b[l].data(), a[l].size() * sizeof(float)), 0)
        << "layer " << l;
  }
}

Outputs read_alone(const CacheOptions& how, std::uint32_t rows, std::uint32_t chunk,
                   std::uint32_t threads = 1) {
  const std::unique_ptr<Cache> cache = open_cache(how);
  Outputs out;
  read(*cache, start(*cache), 7, 0, rows, chunk, &out, threads);
  cache->check_invariants();
  EXPECT_LE(cache->stats().peak_bytes, how.budget_bytes);
  return out;
}

TEST(AttentionTest, EqualsTheDenseReference) {
  constexpr std::uint32_t kRows = 150;
  for (const Isa isa : machine_levels()) {
    for (const KvType type : {KvType::kF16, KvType::kBF16, KvType::kF32}) {
      const CacheOptions how = options(isa, 16, type);
      const Outputs out = read_alone(how, kRows, 64);
      for (std::uint32_t l = 0; l < how.layers.size(); ++l) {
        const LayerShape& shape = how.layers[l];
        for (std::uint32_t position = 0; position < kRows; position += 29) {
          for (std::uint32_t h = 0; h < shape.query_heads; ++h) {
            const std::size_t at = (position * shape.query_heads + h) * shape.value_size;
            EXPECT_LT(row_error(how, 7, l, position, h, all_positions(kRows), &out[l][at]), 2e-6)
                << name_of(isa) << " layer " << l << " position " << position << " head " << h;
          }
        }
      }
    }
  }
}

// Long enough for several tiles of 512 ordinals and for windows that release extents.
TEST(AttentionTest, BitsDoNotDependOnChunksThreadsOrBlockTokens) {
  constexpr std::uint32_t kRows = 1050;
  for (const Isa isa : machine_levels()) {
    if (isa == Isa::kScalar) continue;  // below, shorter
    SCOPED_TRACE(name_of(isa));
    const Outputs whole = read_alone(options(isa), kRows, kRows);
    const bool best = isa == machine_levels().back();  // the others: a sample, for time
    for (const std::uint32_t chunk : {1u, 7u, 16u, 100u, 512u}) {
      if (!best && chunk != 7) continue;
      SCOPED_TRACE(chunk);
      expect_same_bits(whole, read_alone(options(isa), kRows, chunk));
    }
    for (const std::uint32_t threads : {2u, 3u, 4u}) {
      if (!best && threads != 2) continue;
      SCOPED_TRACE(threads);
      expect_same_bits(whole, read_alone(options(isa), kRows, 300, threads));
    }
    for (const std::uint32_t block_tokens : {8u, 32u, 64u}) {
      if (!best && block_tokens != 8) continue;
      SCOPED_TRACE(block_tokens);
      expect_same_bits(whole, read_alone(options(isa, block_tokens), kRows, 200));
    }
  }
}

TEST(AttentionTest, EveryLevelGivesTheSameBits) {
  constexpr std::uint32_t kRows = 530;
  const Outputs scalar = read_alone(options(Isa::kScalar), kRows, 500);
  for (const Isa isa : machine_levels()) {
    SCOPED_TRACE(name_of(isa));
    expect_same_bits(scalar, read_alone(options(isa), kRows, 33, 2));
  }
}

// Few rows over long lanes are split over tiles; the last part to finish merges.
TEST(AttentionTest, DecodeOnFourThreadsGivesTheBitsOfOneChunk) {
  constexpr std::uint32_t kPrompt = 1100, kAnswer = 9;
  Outputs expected;
  for (const std::uint32_t threads : {1u, 2u, 4u}) {
    const std::unique_ptr<Cache> cache = open_cache(options(Isa::kAuto));
    const SequenceId id = start(*cache);
    read(*cache, id, 3, 0, kPrompt, 550, nullptr);
    std::vector<Position> victims;  // one lane dense, one with a table over three tiles
    for (Position p = 5; p < kPrompt; p += 1 + p % 7) victims.push_back(p);
    ASSERT_TRUE(cache->evict(id, 0, 1, victims).ok());
    Outputs out;
    if (threads == 1) {
      read(*cache, id, 3, kPrompt, kAnswer, kAnswer, &out);
    } else {
      read(*cache, id, 3, kPrompt, 6, 1, &out, threads);
      read(*cache, id, 3, kPrompt + 6, 3, 3, &out, threads);
    }
    if (threads == 1) expected = out;
    expect_same_bits(expected, out);
    EXPECT_FALSE(std::isnan(out[0].back()));
  }
}

// Tiles are counted from ordinal 0, also when a window has released the first of them.
TEST(AttentionTest, LongWindowsKeepTheirTilesWhenTheirPrefixIsGone) {
  CacheOptions how = options(Isa::kAuto);
  how.layers = {{.kv_heads = 1, .query_heads = 2, .key_size = 64, .value_size = 64, .window = 600}};
  constexpr std::uint32_t kRows = 1400;
  const Outputs whole = read_alone(how, kRows, kRows);
  for (const std::uint32_t chunk : {1u, 130u, 512u}) {
    const std::unique_ptr<Cache> cache = open_cache(how);
    const SequenceId id = start(*cache);
    Outputs out;
    read(*cache, id, 7, 0, kRows, chunk, &out, 2);
    expect_same_bits(whole, out);
    EXPECT_EQ(cache->positions(id, 0, 0)->front(), (kRows - 600 + 1) / 16 * 16);
  }
}

TEST(AttentionTest, NeighboursInTheBatchCannotBeSeen) {
  constexpr std::uint32_t kRows = 120;
  const Outputs alone = read_alone(options(Isa::kAuto), kRows, kRows);
  const std::unique_ptr<Cache> cache = open_cache(options(Isa::kAuto));
  const SequenceId a = start(*cache), b = start(*cache), c = start(*cache);
  Outputs out;
  ASSERT_TRUE(step(*cache,
                   {{.sequence = b, .text = 9, .rows = 70},
                    {.sequence = a, .text = 7, .rows = 50, .out = &out}},
                   3)
                  .ok());
  ASSERT_TRUE(step(*cache,
                   {{.sequence = a, .text = 7, .first = 50, .rows = 1, .out = &out},
                    {.sequence = c, .text = 11, .rows = 300},
                    {.sequence = b, .text = 9, .first = 70, .rows = 1}},
                   2)
                  .ok());
  ASSERT_TRUE(cache->drop(b).ok());
  read(*cache, a, 7, 51, kRows - 51, 40, &out);
  expect_same_bits(alone, out);
}

TEST(AttentionTest, ForksSeeWhatTheirParentSaw) {
  constexpr std::uint32_t kRows = 100, kMore = 30;
  const Outputs alone = read_alone(options(Isa::kAuto), kRows + kMore, 64);
  const std::unique_ptr<Cache> cache = open_cache(options(Isa::kAuto));
  const SequenceId parent = start(*cache);
  Outputs out;
  read(*cache, parent, 7, 0, kRows, 64, &out);
  Result<SequenceId> child = cache->fork(parent);
  ASSERT_TRUE(child.ok());
  EXPECT_GT(cache->stats(*child)->bytes_shared, 0u);
  Outputs parent_out = out, child_out = out;
  // The parent goes another way first; then both go on in one step.
  ASSERT_TRUE(step(*cache, {{.sequence = parent, .text = 8, .first = kRows, .rows = 9}}).ok());
  ASSERT_TRUE(
      step(*cache,
           {{.sequence = parent, .text = 8, .first = kRows + 9, .rows = 5},
            {.sequence = *child, .text = 7, .first = kRows, .rows = kMore, .out = &child_out}})
          .ok());
  expect_same_bits(alone, child_out);
  ASSERT_TRUE(cache->drop(parent).ok());
  cache->check_invariants();
  EXPECT_EQ(cache->stats(*child)->bytes_shared, 0u);
}

TEST(AttentionTest, ChunkKernelsRunFromTheirNumberOfRowsOn) {
  CacheOptions how = options(Isa::kAuto);
  how.attend_chunk_rows = 30;
  const auto step_of = [&](std::uint32_t rows, bool chunk_kernels) {
    how.chunk_kernels = chunk_kernels;
    const std::unique_ptr<Cache> cache = open_cache(how);
    const bool faster = chunk_kernels && kernels::chunk_kernels_for(Isa::kAuto) != nullptr;
    EXPECT_EQ(cache->chunk_isa() != cache->isa(), faster);
    const SequenceId id = start(*cache);
    read(*cache, id, 7, 0, 100, 100, nullptr);
    Outputs out;
    read(*cache, id, 7, 100, rows, rows, &out);
    return out;
  };
  for (const std::uint32_t rows : {7u, 8u, 9u, 10u, 29u, 30u}) {
    const Outputs exact = step_of(rows, false), got = step_of(rows, true);
    for (std::uint32_t l = 0; l < how.layers.size(); ++l) {
      const std::uint32_t group = how.layers[l].query_heads / how.layers[l].kv_heads;
      const bool chunk = rows * group >= 30 && kernels::chunk_kernels_for(Isa::kAuto) != nullptr;
      EXPECT_EQ(std::memcmp(exact[l].data(), got[l].data(), exact[l].size() * sizeof(float)) != 0,
                chunk)
          << "layer " << l << ", rows " << rows;
    }
  }
}

// Blocks come back from the pool with whatever the last owner left in them.
TEST(AttentionTest, GarbageInDeadSlotsCannotBeSeen) {
  constexpr std::uint32_t kRows = 75;
  for (const Isa isa : machine_levels()) {
    const Outputs clean = read_alone(options(isa), kRows, 20);
    const std::unique_ptr<Cache> cache = open_cache(options(isa));
    const std::vector<LayerShape>& layers = cache->options().layers;
    const SequenceId keeper = start(*cache), poison = start(*cache);
    // Interleaved, so that slabs stay and their blocks are used again.
    for (std::uint32_t i = 0; i < 12; ++i) {
      const std::vector<Segment> segments{{keeper, 16}, {poison, 16}};
      ASSERT_TRUE(cache->begin(segments).ok());
      const std::vector<float> nan(32 * 2 * 96, std::numeric_limits<float>::quiet_NaN());
      for (std::uint32_t l = 0; l < layers.size(); ++l) {
        cache->append(l, nan.data(), nan.data(), 0, 1);
      }
      cache->commit();
    }
    ASSERT_TRUE(cache->drop(poison).ok());
    const SequenceId id = start(*cache);
    Outputs out;
    read(*cache, id, 7, 0, kRows, 20, &out);
    expect_same_bits(clean, out);
  }
}

}  // namespace
}  // namespace quire
