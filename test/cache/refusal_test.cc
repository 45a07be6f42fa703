// Goal: every wrong call is a Status that names what is wrong, and changes nothing.
// Method: one wrong field at a time; ids of dropped sequences; calls in the wrong order.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "cache/rig.h"

namespace quire {
namespace {

using namespace test;

CacheOptions options() {
  return {.layers = mixed_layers(), .budget_bytes = 4 << 20, .max_rows = 50};
}

TEST(RefusalTest, OpenNamesTheWrongField) {
  struct Case {
    const char* field;
    std::function<void(CacheOptions&)> spoil;
  };
  const Case cases[] = {
      {"layers", [](CacheOptions& o) { o.layers.clear(); }},
      {"layers[1].kv_heads", [](CacheOptions& o) { o.layers[1].kv_heads = 0; }},
      {"layers[0].query_heads", [](CacheOptions& o) { o.layers[0].query_heads = 7; }},
      {"layers[0].query_heads", [](CacheOptions& o) { o.layers[0].query_heads = 0; }},
      {"layers[0].query_heads", [](CacheOptions& o) { o.layers[0].query_heads = 34; }},
      {"layers[2].key_size", [](CacheOptions& o) { o.layers[2].key_size = 72; }},
      {"layers[2].key_size", [](CacheOptions& o) { o.layers[2].key_size = 272; }},
      {"layers[2].value_size", [](CacheOptions& o) { o.layers[2].value_size = 48; }},
      {"layers[0].scale", [](CacheOptions& o) { o.layers[0].scale = NAN; }},
      {"layers[0].softcap", [](CacheOptions& o) { o.layers[0].softcap = -1; }},
      {"layers[2].sinks", [](CacheOptions& o) { o.layers[2].sinks.push_back(1); }},
      {"layers[2].sinks", [](CacheOptions& o) { o.layers[2].sinks[0] = INFINITY; }},
      {"layers[0].rope.frequency", [](CacheOptions& o) { o.layers[0].rope.frequency = {1}; }},
      {"layers[0].rope.frequency",
       [](CacheOptions& o) { o.layers[0].rope.frequency.assign(32, INFINITY); }},
      {"layers[2].output.rows", [](CacheOptions& o) { o.layers[2].output.rows = nullptr; }},
      {"key_type", [](CacheOptions& o) { o.key_type = KvType{9}; }},
      {"value_type", [](CacheOptions& o) { o.value_type = KvType{9}; }},
      {"block_tokens", [](CacheOptions& o) { o.block_tokens = 12; }},
      {"max_rows", [](CacheOptions& o) { o.max_rows = 0; }},
      {"budget_bytes", [](CacheOptions& o) { o.budget_bytes = 0; }},
  };
  for (const Case& c : cases) {
    CacheOptions wrong = options();
    c.spoil(wrong);
    const Result<std::unique_ptr<Cache>> cache = Cache::open(wrong);
    ASSERT_FALSE(cache.ok()) << c.field;
    EXPECT_EQ(cache.status().code(), Code::kInvalidArgument) << c.field;
    EXPECT_EQ(cache.status().message().find(c.field), 0u) << cache.status().message();
  }
}

TEST(RefusalTest, StaleIdsAreNotFound) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId old = start(*cache);
  ASSERT_TRUE(cache->drop(old).ok());
  const SequenceId reused = start(*cache);  // the same slot, another generation
  EXPECT_NE(old, reused);
  const std::vector<Segment> segments{{old, 1}};
  EXPECT_EQ(cache->drop(old).code(), Code::kNotFound);
  EXPECT_EQ(cache->fork(old).status().code(), Code::kNotFound);
  EXPECT_EQ(cache->begin(segments).code(), Code::kNotFound);
  EXPECT_EQ(cache->evict(old, 0, 0, {}).code(), Code::kNotFound);
  EXPECT_EQ(cache->positions(old, 0, 0).status().code(), Code::kNotFound);
  EXPECT_EQ(cache->tap(old, 0, 0).status().code(), Code::kNotFound);
  EXPECT_EQ(cache->stats(old).status().code(), Code::kNotFound);
  EXPECT_EQ(cache->shrink(old, *make_policy("sink-recency"), 9).status().code(), Code::kNotFound);
  EXPECT_EQ(cache->bytes_needed(old, 100), 0u);
  EXPECT_EQ(cache->drop(SequenceId{~std::uint64_t{0}}).code(), Code::kNotFound);
  EXPECT_EQ(cache->stats().sequences, 1u);
}

TEST(RefusalTest, BeginRefusesWrongSegments) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId a = start(*cache), b = start(*cache);
  const CacheStats before = cache->stats();
  for (const std::vector<Segment>& wrong : {
           std::vector<Segment>{},
           {{a, 0}},
           {{a, 51}},
           {{a, 26}, {b, 25}},
           {{a, 1}, {b, 1}, {a, 1}},
           {{.sequence = a, .rows = 3, .window_rows = 4}},
       }) {
    EXPECT_EQ(cache->begin(wrong).code(), Code::kInvalidArgument);
    EXPECT_TRUE(same_bytes(before, cache->stats()));
  }
  const std::vector<Segment> right{{a, 25}, {b, 25}};
  EXPECT_TRUE(cache->begin(right).ok());
  cache->cancel();
}

TEST(RefusalTest, NothingElseHappensInAStep) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = start(*cache);
  const std::vector<Segment> segments{{id, 5}};
  ASSERT_TRUE(cache->begin(segments).ok());
  EXPECT_EQ(cache->begin(segments).code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->start().status().code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->fork(id).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->drop(id).code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->evict(id, 0, 0, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->shrink(id, *make_policy("sink-recency"), 9).status().code(),
            Code::kInvalidArgument);
  cache->cancel();
  cache->cancel();  // nothing to cancel: nothing happens
  EXPECT_TRUE(cache->drop(id).ok());
}

TEST(RefusalTest, EvictRefusesPositionsThatAreNotLive) {
  const std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = start(*cache);
  read(*cache, id, 5, 0, 30, 30, nullptr);
  ASSERT_TRUE(cache->evict(id, 0, 0, std::vector<Position>{4}).ok());
  for (const std::vector<Position>& wrong :
       {std::vector<Position>{4}, {30}, {7, 6}, {8, 8}, {1, 2, 1000}}) {
    EXPECT_EQ(cache->evict(id, 0, 0, wrong).code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(cache->positions(id, 0, 0)->size(), 29u);
  EXPECT_EQ(cache->evict(id, 9, 0, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(cache->evict(id, 0, 2, {}).code(), Code::kInvalidArgument);
}

// A cache that dies in the middle of a step gives everything back without a complaint.
TEST(RefusalTest, ACacheMayEndInAStep) {
  std::unique_ptr<Cache> cache = open_cache(options());
  const SequenceId id = start(*cache);
  const std::vector<Segment> segments{{id, 5}};
  ASSERT_TRUE(cache->begin(segments).ok());
  cache->check_invariants();
  cache.reset();
  EXPECT_EQ(cache, nullptr);
}

}  // namespace
}  // namespace quire
