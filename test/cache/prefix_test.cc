// Goal: a sequence that begins behind cached units computes what it computes alone, to the bit:
//   cold, cached, in chunks, behind half a unit, beside sharers that evict and repack, with window
//   layers and taps; what may not be reused is not, and the reason says why.
// Method: made-up texts, whose rows are functions of text and position; outputs against a cold run
//   in a cache without prefixes, with memcmp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cache/rig.h"
#include "support/seed.h"

namespace quire {
namespace {

using namespace test;

CacheOptions plain_options(std::uint32_t block_tokens = 16, Isa isa = Isa::kAuto,
                           KvType type = KvType::kF16) {
  return {.layers = mixed_layers(),
          .budget_bytes = 16 << 20,
          .key_type = type,
          .value_type = type,
          .block_tokens = block_tokens,
          .isa = isa};
}

CacheOptions options(std::uint32_t block_tokens = 16, Isa isa = Isa::kAuto,
                     KvType type = KvType::kF16) {
  CacheOptions options = plain_options(block_tokens, isa, type);
  options.prefix = {.hash = digest_of, .identity = "test"};
  return options;
}

std::vector<Token> tokens_of(std::uint64_t text, std::uint32_t count) {
  std::vector<Token> tokens(count);
  for (std::uint32_t i = 0; i < count; ++i) tokens[i] = static_cast<Token>(text * 10000 + i);
  return tokens;
}

// Outputs of positions [first, length) of a text read alone.
Outputs cold(const CacheOptions& options, std::uint64_t text, std::uint32_t first,
             std::uint32_t length) {
  const std::unique_ptr<Cache> cache = open_cache(options);
  const SequenceId id = start(*cache);
  Outputs out;
  read(*cache, id, text, 0, first, 512, nullptr);
  read(*cache, id, text, first, length - first, 512, &out);
  return out;
}

void expect_same(const Outputs& a, const Outputs& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t l = 0; l < a.size(); ++l) {
    ASSERT_EQ(a[l].size(), b[l].size()) << "layer " << l;
    EXPECT_EQ(std::memcmp(a[l].data(), b[l].data(), a[l].size() * sizeof(float)), 0)
        << "layer " << l;
  }
}

// Reads a text in chunks, entering what there is after each step as an engine does.
SequenceId read_and_index(Cache& cache, std::uint64_t text, std::uint32_t length,
                          std::uint32_t chunk = 64) {
  const SequenceId id = start(cache);
  const std::vector<Token> tokens = tokens_of(text, length);
  PrefixKeys keys;
  for (std::uint32_t done = 0; done < length; done += chunk) {
    read(cache, id, text, done, std::min(chunk, length - done), chunk, nullptr);
    EXPECT_TRUE(cache.index(id, {tokens, {}, &keys}).ok());
  }
  return id;
}

PrefixStart begin_behind(Cache& cache, const std::vector<Token>& tokens, const Needs& needs = {},
                         std::string_view salt = {}) {
  const Result<PrefixStart> started = cache.start_with_prefix(needs, {tokens, salt});
  EXPECT_TRUE(started.ok()) << started.status().message();
  return started.ok() ? *started : PrefixStart{};
}

TEST(PrefixTest, CachedIsColdIsChunked) {
  for (const Isa isa : machine_levels()) {
    for (const std::uint32_t block_tokens : {8u, 16u, 64u}) {
      const KvType type = block_tokens == 16 ? KvType::kF16 : KvType::kF32;
      const std::unique_ptr<Cache> cache = open_cache(options(block_tokens, isa, type));
      ASSERT_TRUE(cache->drop(read_and_index(*cache, 5, 256, 16)).ok());
      // Beyond the text, inside its last unit, at its end, at a unit's border and beside it.
      std::vector<std::uint32_t> lengths{300, 256, 250, 193, 65, 64};
      if (isa != machine_levels().back()) lengths = {250};
      for (const std::uint32_t length : lengths) {
        const std::uint32_t reused = std::min(length - 1, 256u);
        const Outputs expected = cold(plain_options(block_tokens, isa, type), 5, reused, length);
        for (const std::uint32_t chunk : {1u, 7u, 100u}) {
          const PrefixStart started = begin_behind(*cache, tokens_of(5, length));
          ASSERT_EQ(started.reused, reused) << length;
          EXPECT_EQ(started.end, length > 256 ? PrefixEnd::kCold : PrefixEnd::kLastRows);
          Outputs out;
          read(*cache, started.sequence, 5, reused, length - reused, chunk, &out);
          expect_same(out, expected);
          cache->check_invariants();
          ASSERT_TRUE(cache->drop(started.sequence).ok());
        }
      }
      EXPECT_EQ(cache->stats().prefix.hits, lengths.size() * 3);
    }
  }
}

// Rows up to where two texts part are the same for both.
TEST(PrefixTest, ATextThatPartsInsideAUnitTakesTheRowsBefore) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  ASSERT_TRUE(cache->drop(read_and_index(*cache, 5, 256, 256)).ok());
  std::vector<Token> tokens = tokens_of(5, 240);
  std::ranges::copy(tokens_of(6, 40), tokens.begin() + 200);
  // What a row at 200 sees in the window layer is gone but for the end; its units' there were kept.
  const PrefixMatch match = cache->lookup({tokens});
  ASSERT_EQ(match.segments.size(), 2u);
  EXPECT_EQ(match.segments[0].tokens, 192u);
  const auto length = [&](Cache& with) {
    const PrefixStart started = begin_behind(with, tokens);
    Outputs out, expected;
    read(with, started.sequence, 5, started.reused, 200 - started.reused, 50, nullptr);
    read(with, started.sequence, 6, 200, 40, 50, &out);
    const std::unique_ptr<Cache> alone = open_cache(plain_options());
    const SequenceId id = start(*alone);
    read(*alone, id, 5, 0, 200, 50, nullptr);
    read(*alone, id, 6, 200, 40, 50, &expected);
    expect_same(out, expected);
    EXPECT_TRUE(with.drop(started.sequence).ok());
    return started.reused;
  };
  EXPECT_EQ(match.end, PrefixEnd::kWindow);
  EXPECT_EQ(length(*cache), 0u);
  // Read in smaller steps, more of the window layer's units are there.
  cache->forget();
  ASSERT_TRUE(cache->drop(read_and_index(*cache, 5, 256, 16)).ok());
  EXPECT_EQ(length(*cache), 200u);
  EXPECT_EQ(cache->lookup({tokens}).end, PrefixEnd::kDiffers);
}

TEST(PrefixTest, SharersThatEvictAndRepackAreAlone) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  CacheOptions shared = options(), alone = plain_options();
  shared.repack = alone.repack = {.waste = 0, .fullness = 1, .watermark = 1};
  const std::unique_ptr<Cache> cache = open_cache(shared), without = open_cache(alone);
  const std::vector<Token> tokens = tokens_of(5, 240);
  const SequenceId first = read_and_index(*cache, 5, 240);
  const SequenceId twin = start(*without);
  read(*without, twin, 5, 0, 240, 64, nullptr);
  const PrefixStart second = begin_behind(*cache, tokens);
  EXPECT_EQ(second.reused, 239u);
  const CacheStats before = cache->stats();
  std::mt19937_64 random(seed);
  for (const std::uint32_t l : {0u, 2u}) {
    for (const std::uint32_t h : {0u, 1u}) {
      std::vector<Position> victims;
      for (Position p = 0; p < 230; ++p) {
        if (random() % 100 < 60) victims.push_back(p);
      }
      ASSERT_TRUE(cache->evict(first, l, h, victims).ok());
      ASSERT_TRUE(without->evict(twin, l, h, victims).ok());
      cache->check_invariants();
    }
  }
  EXPECT_EQ(cache->stats().kv_bytes, before.kv_bytes) << "another one reads all of it";
  EXPECT_EQ(cache->stats().prefix.bytes, before.prefix.bytes);
  Outputs expected = cold(plain_options(), 5, 239, 300), out;
  read(*cache, second.sequence, 5, 239, 21, 7, &out);
  const auto repack = [](Cache& which) {
    const std::uint64_t planned = which.plan_moves(1 << 30).plans;
    while (which.copy_moves(1 << 20) > 0) {
    }
    which.install_moves();
    which.check_invariants();
    return planned;
  };
  EXPECT_EQ(repack(*cache), 0u);
  EXPECT_GT(repack(*without), 0u);
  read(*cache, second.sequence, 5, 260, 40, 40, &out);
  expect_same(out, expected);
  // When the other one has left, the index makes way.
  ASSERT_TRUE(cache->drop(second.sequence).ok());
  EXPECT_GT(cache->stats().prefix.units, 0u);
  EXPECT_GT(repack(*cache), 0u);
  Outputs lossy, lossy_twin;
  read(*cache, first, 5, 240, 60, 60, &lossy);
  read(*without, twin, 5, 240, 60, 60, &lossy_twin);
  expect_same(lossy, lossy_twin);
  for (const std::uint32_t l : {0u, 2u}) {
    EXPECT_EQ(*cache->positions(first, l, 0), *without->positions(twin, l, 0));
  }
  // But for what the window layer keeps for the last whole unit.
  EXPECT_LE(cache->stats(first)->blocks, without->stats(twin)->blocks + 1);
  // Nothing of what was computed after the eviction is shared.
  const std::uint64_t units = cache->stats().prefix.units;
  EXPECT_TRUE(cache->index(first, {tokens_of(5, 300)}).ok());
  EXPECT_EQ(cache->stats().prefix.units, units);
  const PrefixStart third = begin_behind(*cache, tokens_of(5, 300));
  EXPECT_LE(third.reused, 256u);
  out.clear();
  read(*cache, third.sequence, 5, third.reused, 300 - third.reused, 100, &out);
  expect_same(out, cold(plain_options(), 5, third.reused, 300));
  cache->check_invariants();
}

// Of a full pool: units whose blocks the repack moves go, and nothing else is lost.
TEST(PrefixTest, AFullPoolRepacksWhatTheIndexHolds) {
  CacheOptions small = options();
  small.budget_bytes = 2 << 20;
  const std::unique_ptr<Cache> cache = open_cache(small), without = open_cache(plain_options());
  const SequenceId id = start(*cache), twin = start(*without);
  cache->plan_moves(0);  // sets blocks aside
  std::uint32_t length = 0;
  while (step(*cache, {{.sequence = id, .text = 5, .first = length, .rows = 16}}).ok()) {
    length += 16;
    ASSERT_TRUE(cache->index(id, {tokens_of(5, length)}).ok());
  }
  read(*without, twin, 5, 0, length, 64, nullptr);
  for (const std::uint32_t l : {0u, 2u}) {
    for (const std::uint32_t h : {0u, 1u}) {
      std::vector<Position> victims;  // no block is wholly dead
      for (Position p = 0; p < length; p += 2) victims.push_back(p);
      ASSERT_TRUE(cache->evict(id, l, h, victims).ok());
      ASSERT_TRUE(without->evict(twin, l, h, victims).ok());
    }
  }
  const auto lacking = [&] {
    const std::size_t needed = cache->bytes_needed(id, 100), free = cache->bytes_free();
    return needed - std::min(needed, free);
  };
  ASSERT_GT(lacking(), 0u);
  while (lacking() > 0 && cache->repack(lacking()) > 0) cache->check_invariants();
  EXPECT_EQ(lacking(), 0u);
  Outputs out, expected;
  read(*cache, id, 5, length, 100, 100, &out);
  read(*without, twin, 5, length, 100, 100, &expected);
  expect_same(out, expected);
  EXPECT_EQ(cache->stats(id)->entries_dropped, without->stats(twin)->entries_dropped);
  cache->check_invariants();
}

TEST(PrefixTest, AReviewFreesWhatOnlyTheIndexHolds) {
  const std::unique_ptr<Cache> cache = open_cache(options()), without = open_cache(plain_options());
  const SequenceId id = read_and_index(*cache, 5, 400);
  const SequenceId twin = start(*without);
  read(*without, twin, 5, 0, 400, 64, nullptr);
  const Policy policy = *make_policy("sink-recency");
  const ShrinkReport report = *cache->shrink(id, policy, 100);
  const ShrinkReport expected = *without->shrink(twin, policy, 100);
  EXPECT_EQ(report.entries_dropped, expected.entries_dropped);
  EXPECT_GE(report.bytes_freed, expected.bytes_freed);
  EXPECT_LT(report.bytes_freed, expected.bytes_freed + expected.bytes_freed / 10);
  EXPECT_EQ(cache->stats(id)->blocks, without->stats(twin)->blocks);
  EXPECT_EQ(cache->stats(id)->bytes_shared, 0u);
  cache->check_invariants();
}

TEST(PrefixTest, TapsAreThoseOfTheRowsLeft) {
  const std::unique_ptr<Cache> cache = open_cache(options()), without = open_cache(plain_options());
  ASSERT_TRUE(cache->drop(read_and_index(*cache, 5, 256, 32)).ok());
  const std::vector<Token> tokens = tokens_of(5, 200);
  const auto taps = [](const Cache& which, SequenceId id) {
    std::vector<std::vector<float>> sums;
    for (const std::uint32_t l : {0u, 2u}) sums.push_back(*which.tap(id, l, 1));
    return sums;
  };
  const Needs last{.tap = Tap::kLastRows, .window = 50};
  const PrefixStart started = begin_behind(*cache, tokens, last);
  EXPECT_EQ(started.reused, 150u);
  EXPECT_EQ(started.end, PrefixEnd::kLastRows);
  const SequenceId twin = start(*without, last);
  read(*without, twin, 5, 0, 150, 64, nullptr);
  for (const auto& [which, id] :
       {std::pair(cache.get(), started.sequence), {without.get(), twin}}) {
    ASSERT_TRUE(
        step(*which, {{.sequence = id, .text = 5, .first = 150, .rows = 50, .window_rows = 50}})
            .ok());
  }
  EXPECT_EQ(taps(*cache, started.sequence), taps(*without, twin));

  const Needs answer{.tap = Tap::kDecodeRows, .state = true};
  const PrefixStart decoding = begin_behind(*cache, tokens, answer);
  EXPECT_EQ(decoding.reused, 199u);
  const SequenceId other = start(*without, answer);
  read(*without, other, 5, 0, 199, 64, nullptr);
  for (const auto& [which, id] :
       {std::pair(cache.get(), decoding.sequence), {without.get(), other}}) {
    ASSERT_TRUE(step(*which, {{.sequence = id, .text = 5, .first = 199, .rows = 1}}).ok());
    ASSERT_TRUE(
        step(*which, {{.sequence = id, .text = 5, .first = 200, .rows = 9, .answer = true}}).ok());
  }
  EXPECT_EQ(taps(*cache, decoding.sequence), taps(*without, other));
  cache->check_invariants();

  for (const Needs& all : {Needs{.tap = Tap::kAllRows}, Needs{.future = 64}}) {
    const PrefixStart none = begin_behind(*cache, tokens, all);
    EXPECT_EQ(none.reused, 0u);
    EXPECT_EQ(none.end, PrefixEnd::kAllRows);
    EXPECT_EQ(cache->lookup({tokens}, all).usable, 0u);
    EXPECT_EQ(cache->lookup({tokens}, all).segments[0].tokens, 192u);
  }
  EXPECT_EQ(begin_behind(*cache, tokens_of(5, 50), last).end, PrefixEnd::kShort);
}

TEST(PrefixTest, OtherSaltsModelsAndLayoutsShareNothing) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const std::vector<Token> tokens = tokens_of(5, 100);
  const SequenceId id = start(*cache);
  read(*cache, id, 5, 0, 100, 32, nullptr);
  PrefixKeys keys;
  EXPECT_EQ(*cache->index(id, {tokens, "tenant", &keys}), 96u);
  EXPECT_EQ(cache->lookup({tokens, "tenant"}).usable, 96u);
  EXPECT_EQ(cache->lookup({tokens, "tenant", &keys}).usable, 96u);
  EXPECT_EQ(cache->lookup({tokens, "other"}).usable, 0u);
  EXPECT_EQ(cache->lookup({tokens, "other"}).end, PrefixEnd::kCold);
  EXPECT_EQ(cache->lookup({tokens, "", &keys}).usable, 0u) << "keys of another salt";
  EXPECT_EQ(cache->lookup({tokens, "tenant", &keys}).usable, 96u) << "and back";
  std::vector<Token> changed = tokens;
  changed[40] = 7;
  EXPECT_EQ(cache->lookup({changed, "tenant", &keys}).segments[0].tokens, 32u) << "stale keys";
  EXPECT_EQ(cache->lookup({tokens, "tenant", &keys}).usable, 96u);
  // A sequence's units cannot be entered as another text's.
  EXPECT_EQ(*cache->index(id, {changed, "tenant"}), 32u);
  EXPECT_EQ(cache->stats().prefix.units, 6u);

  const auto key = [&](CacheOptions with) {
    PrefixKeys last;
    open_cache(with)->lookup({tokens, {}, &last});
    return last.units.back().key;
  };
  const Digest expected = key(options());
  EXPECT_EQ(key(options()), expected);
  CacheOptions model = options(), layers = options(), types = options();
  model.prefix.identity = "another";
  layers.layers[1].window = 38;
  types.value_type = KvType::kBF16;
  for (const CacheOptions& other : {model, layers, types, options(32)}) {
    EXPECT_NE(key(other), expected);
  }
}

TEST(PrefixTest, WithoutAHashThereIsNoPrefix) {
  const std::unique_ptr<Cache> cache = open_cache(plain_options());
  const std::vector<Token> tokens = tokens_of(5, 100);
  const SequenceId id = start(*cache);
  read(*cache, id, 5, 0, 100, 100, nullptr);
  EXPECT_EQ(*cache->index(id, {tokens}), 0u);
  EXPECT_EQ(cache->expect({tokens}), 0u);
  ASSERT_EQ(cache->lookup({tokens}).segments.size(), 1u);
  EXPECT_FALSE(cache->lookup({tokens}).segments[0].cached);
  const PrefixStart started = begin_behind(*cache, tokens);
  EXPECT_EQ(started.reused, 0u);
  EXPECT_EQ(started.end, PrefixEnd::kDisabled);
  cache->forget({tokens});
  cache->forget();
  EXPECT_STREQ(name_of(started.end), "disabled");
}

TEST(PrefixTest, RefusalsNameWhatIsWrong) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const std::vector<Token> tokens = tokens_of(5, 40);
  const SequenceId id = read_and_index(*cache, 5, 40);
  EXPECT_EQ(cache->index(SequenceId{99}, {tokens}).status().code(), Code::kNotFound);
  EXPECT_EQ(cache->start_with_prefix({.per_head = true}, {tokens}).status().code(),
            Code::kInvalidArgument);
  const Segment segment{.sequence = id, .rows = 1};
  ASSERT_TRUE(cache->begin({&segment, 1}).ok());
  EXPECT_EQ(cache->index(id, {tokens}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->start_with_prefix({}, {tokens}).status().code(), Code::kInvalidArgument);
  cache->forget();  // later
  cache->cancel();
  EXPECT_EQ(cache->lookup({tokens}).usable, 32u);
}

// Of a pool full of units begin() refuses what it refuses without them, and says so before.
TEST(PrefixTest, WhatIsFreeIsTrueWithUnitsInTheWay) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  CacheOptions small = options();
  small.budget_bytes = 3 << 20;
  const std::unique_ptr<Cache> cache = open_cache(small);
  const std::uint32_t fits = cache->tokens_that_fit();
  std::vector<std::pair<SequenceId, std::uint32_t>> running;  // and its text
  std::size_t refused = 0;
  // A walk that happened to drop much goes on until it has felt the budget.
  for (std::uint32_t i = 0; i < 250 || (refused == 0 && i < 2500); ++i) {
    const std::uint32_t text = static_cast<std::uint32_t>(random() % 8);
    if (running.size() < 4) {
      const std::vector<Token> tokens =
          tokens_of(text, 1 + static_cast<std::uint32_t>(random() % fits));
      const Result<PrefixStart> started = cache->start_with_prefix({}, {tokens});
      if (started.ok()) running.emplace_back(started->sequence, text);
    }
    if (running.empty()) continue;
    const std::size_t at = random() % running.size();
    const auto [id, of] = running[at];
    const auto rows = static_cast<std::uint32_t>(1 + random() % 200);
    const std::uint32_t length = *cache->length(id);
    const std::size_t needed = cache->bytes_needed(id, rows), free = cache->bytes_free();
    const CacheStats before = cache->stats();
    const Status status =
        step(*cache, {{.sequence = id, .text = of, .first = length, .rows = rows}});
    if (!status.ok()) {
      ++refused;
      EXPECT_EQ(status.code(), Code::kOutOfMemory);
      EXPECT_GT(needed, free);
      EXPECT_TRUE(same_bytes(before, cache->stats())) << "a refusal evicts nothing";
    } else {
      EXPECT_LE(needed, free + cache->options().budget_bytes / 40);  // a slab
      EXPECT_TRUE(cache->index(id, {tokens_of(of, length + rows)}).ok());
    }
    if (!status.ok() || random() % 4 == 0) {
      ASSERT_TRUE(cache->drop(id).ok());
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
    }
    cache->check_invariants();
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(cache->stats().prefix.evicted, 20u);
  EXPECT_GT(cache->stats().prefix.hits, 10u);
  for (const auto& [id, text] : running) ASSERT_TRUE(cache->drop(id).ok());
  const CacheStats idle = cache->stats();
  EXPECT_EQ(idle.prefix.bytes, idle.used_bytes);
  cache->forget();
  EXPECT_EQ(cache->stats().committed_bytes, 0u);
}

}  // namespace
}  // namespace quire
