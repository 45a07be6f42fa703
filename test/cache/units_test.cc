// Goal: units that were saved and loaded into another cache are what a text gives, to the bit, also
//   of window layers; loading takes no more than what nobody reads or expects, and one that finds
//   no room, or is asked wrongly, changes nothing.
// Method: made-up texts, as in prefix_test.cc; outputs against a cold run with memcmp.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "cache/rig.h"

namespace quire {
namespace {

using namespace test;

CacheOptions options(std::size_t budget = 16 << 20, std::uint32_t block_tokens = 16) {
  return {.layers = mixed_layers(),
          .budget_bytes = budget,
          .block_tokens = block_tokens,
          .prefix = {.hash = digest_of, .identity = "test"}};
}

std::vector<Token> tokens_of(std::uint64_t text, std::uint32_t count) {
  std::vector<Token> tokens(count);
  for (std::uint32_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>(text * 10000 + i);
  return tokens;
}

// Reads a text, leaves its units and lets it go.
void leave(Cache& cache, std::uint64_t text, std::uint32_t length) {
  const SequenceId id = start(cache);
  read(cache, id, text, 0, length, 64, nullptr);
  ASSERT_TRUE(cache.index(id, {tokens_of(text, length)}).ok());
  ASSERT_TRUE(cache.drop(id).ok());
}

struct Saved {
  std::vector<Token> tokens;
  std::vector<std::byte> bytes;
  std::uint32_t units = 0;
};

Saved save(const Cache& cache, std::vector<Token> tokens) {
  Saved saved{.tokens = std::move(tokens), .bytes = {}};
  saved.units = cache.savable_units({saved.tokens});
  saved.tokens.resize(std::size_t{saved.units} * cache.options().block_tokens);
  saved.bytes.resize(cache.unit_bytes(saved.units, 0, saved.units));
  const Status status = cache.save_units({saved.tokens}, 0, saved.units, saved.bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  return saved;
}

// In pieces of `step` units; returns how many found room.
std::uint32_t load(Cache& cache, const Saved& saved, std::uint32_t step = 3) {
  PrefixKeys keys;
  const PrefixText text{saved.tokens, {}, &keys};
  std::span<const std::byte> rest(saved.bytes);
  for (std::uint32_t begin = 0; begin < saved.units; begin += step) {
    const std::uint32_t end = std::min(saved.units, begin + step);
    const std::span<const std::byte> piece = rest.first(cache.unit_bytes(saved.units, begin, end));
    const Result<std::uint32_t> count = cache.load_units(text, begin, end, piece);
    EXPECT_TRUE(count.ok()) << count.status().message();
    cache.check_invariants();
    if (*count < end - begin) return begin + *count;
    rest = rest.subspan(piece.size());
  }
  return saved.units;
}

void expect_same(const Outputs& a, const Outputs& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t l = 0; l < a.size(); ++l) {
    ASSERT_EQ(a[l].size(), b[l].size());
    EXPECT_EQ(std::memcmp(a[l].data(), b[l].data(), a[l].size() * sizeof(float)), 0) << l;
  }
}

// Positions [first, length) of text 5 behind what the cache has, against a cold run.
void expect_cold_outputs(Cache& cache, std::uint32_t first, std::uint32_t length) {
  const std::vector<Token> tokens = tokens_of(5, length);
  const Result<PrefixStart> started = cache.start_with_prefix({}, {tokens});
  ASSERT_TRUE(started.ok());
  ASSERT_EQ(started->reused, first);
  CacheOptions plain = cache.options();
  plain.prefix = {};
  plain.budget_bytes = 16 << 20;
  const std::unique_ptr<Cache> alone = open_cache(plain);
  const SequenceId id = start(*alone);
  Outputs expected, out;
  read(*alone, id, 5, 0, first, 512, nullptr);
  read(*alone, id, 5, first, length - first, 512, &expected);
  read(cache, started->sequence, 5, first, length - first, 7, &out);
  expect_same(out, expected);
  ASSERT_TRUE(cache.drop(started->sequence).ok());
  cache.check_invariants();
}

TEST(UnitsTest, LoadedElsewhereIsCold) {
  for (const std::uint32_t block_tokens : {8u, 16u, 64u}) {
    const std::unique_ptr<Cache> first = open_cache(options(16 << 20, block_tokens));
    leave(*first, 5, 200);
    const std::uint32_t whole = 200 / block_tokens * block_tokens;
    const Saved saved = save(*first, tokens_of(5, 260));
    EXPECT_EQ(saved.tokens.size(), whole) << "what is cached of a longer text";

    const std::unique_ptr<Cache> second = open_cache(options(16 << 20, block_tokens));
    ASSERT_EQ(first->prefix_identity(), second->prefix_identity());
    ASSERT_EQ(load(*second, saved), saved.units);
    EXPECT_EQ(second->stats().prefix.units, saved.units);
    EXPECT_EQ(second->stats().used_bytes - second->stats().headroom_bytes,
              second->stats().prefix.bytes)
        << "all of it is free for others";
    expect_cold_outputs(*second, whole, 260);
    // All tokens but the last, which is computed.
    second->forget();
    ASSERT_EQ(load(*second, saved, 100), saved.units);
    expect_cold_outputs(*second, whole - 1, whole);
    // And what it gives is the same again.
    EXPECT_EQ(save(*second, tokens_of(5, whole)).bytes, saved.bytes);
  }
}

TEST(UnitsTest, WindowLayersHaveTheirEndAlone) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const std::size_t early = cache->unit_bytes(20, 0, 1), late = cache->unit_bytes(20, 19, 20);
  EXPECT_EQ(late - early, 16u * (80 + 64) * 2) << "one KV head's block";
  EXPECT_EQ(cache->unit_bytes(20, 0, 20), 17 * early + 3 * late) << "a row sees 37 positions";
}

TEST(UnitsTest, WhatIsThereIsKeptAndWhatIsMissingIsFilledIn) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  leave(*cache, 5, 200);
  const Saved saved = save(*cache, tokens_of(5, 192));
  cache->forget({tokens_of(5, 64)});
  EXPECT_EQ(cache->savable_units({tokens_of(5, 192)}), 0u);
  std::vector<std::byte> out(saved.bytes.size());
  EXPECT_EQ(cache->save_units({saved.tokens}, 0, saved.units, out).code(), Code::kNotFound);
  const std::uint64_t entered = cache->stats().prefix.entered;
  ASSERT_EQ(load(*cache, saved), saved.units);
  EXPECT_EQ(cache->stats().prefix.entered, entered + 4);
  expect_cold_outputs(*cache, 192, 230);
}

TEST(UnitsTest, RoomIsWhatNobodyReadsOrExpects) {
  const std::unique_ptr<Cache> from = open_cache(options());
  leave(*from, 5, 400);
  const Saved saved = save(*from, tokens_of(5, 400));
  const std::unique_ptr<Cache> cache = open_cache(options(std::size_t{3} << 20));
  // Others' units make way.
  for (std::uint64_t text = 10; text < 20; ++text) leave(*cache, text, 200);
  ASSERT_EQ(load(*cache, saved), saved.units);
  cache->unexpect({saved.tokens});
  expect_cold_outputs(*cache, 400, 420);
  cache->forget();
  // Those that somebody waits for do not, nor what is being read.
  const SequenceId reader = start(*cache);
  std::uint32_t rows = 0;
  while (cache->bytes_needed(reader, 64) + (std::size_t{1} << 19) < cache->bytes_free()) {
    read(*cache, reader, 9, rows, 64, 64, nullptr);
    rows += 64;
  }
  leave(*cache, 11, 96);
  EXPECT_EQ(cache->expect({tokens_of(11, 96)}), 96u);
  const std::uint32_t loaded = load(*cache, saved);
  EXPECT_GT(loaded, 0u);
  EXPECT_LT(loaded, saved.units);
  EXPECT_EQ(cache->savable_units({tokens_of(11, 96)}), 6u);
  // What has found room is sound, and makes way when it is no longer expected.
  cache->unexpect({tokens_of(5, loaded * 16)});
  cache->check_invariants();
  ASSERT_TRUE(cache->drop(reader).ok());
  cache->forget();
  EXPECT_EQ(cache->stats().kv_bytes, 0u);
}

TEST(UnitsTest, WhatIsAskedWronglyIsRefusedByName) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  leave(*cache, 5, 64);
  std::vector<std::byte> bytes(cache->unit_bytes(4, 0, 4));
  const std::vector<Token> tokens = tokens_of(5, 64);
  const auto said = [&](std::uint32_t begin, std::uint32_t end, std::size_t size) {
    return cache->save_units({tokens}, begin, end, std::span(bytes).first(size)).message();
  };
  EXPECT_EQ(said(0, 5, 0), "units: [0, 5) of a text of 4");
  EXPECT_EQ(said(3, 2, 0), "units: [3, 2) of a text of 4");
  EXPECT_EQ(said(0, 4, 8), "bytes: 8, the units have " + std::to_string(bytes.size()));
  CacheOptions off = options();
  off.prefix = {};
  const std::unique_ptr<Cache> without = open_cache(off);
  EXPECT_EQ(without->load_units({tokens}, 0, 4, bytes).status().message(),
            "units: there is no prefix cache");
  EXPECT_EQ(without->savable_units({tokens}), 0u);
  EXPECT_EQ(without->prefix_identity(), Digest{});
  // Another model, layout, type or mode has another identity.
  std::vector<CacheOptions> others(5, options());
  others[0].prefix.identity = "other";
  others[1].block_tokens = 8;
  others[2].value_type = KvType::kF32;
  others[3].chunk_kernels = true;
  others[4].layers[1].window = 64;
  for (const CacheOptions& other : others) {
    EXPECT_NE(open_cache(other)->prefix_identity(), cache->prefix_identity());
  }
}

}  // namespace
}  // namespace quire
