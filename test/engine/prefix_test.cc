// Goal: requests that begin alike compute it once, in every way they may meet; what they answer is
//   what each answers alone, and the cache's leftovers are never in anybody's way.
// Method: a model whose answers are hashes of every bit of attention (hash_model.h), over a real
//   cache; answers against those of a cache without prefixes, rows counted.

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/hash_bench.h"
#include "engine/sha256.h"

namespace quire::engine {
namespace {

using test::prompt_of;
using test::Tokens;

// The two texts, one behind the other.
Tokens joined(Tokens text, const Tokens& more) {
  text.insert(text.end(), more.begin(), more.end());
  return text;
}

struct Bench : test::Bench {
  explicit Bench(EngineOptions options = {}, std::size_t budget = std::size_t{1} << 20,
                 std::uint32_t max_rows = 64)
      : test::Bench(std::move(options), budget, max_rows, {.hash = sha256}) {}

  Answer ask(Request request) {
    const RequestId id = submit(std::move(request));
    engine->run_until_idle();
    return answers[id];
  }
  Answer ask(Tokens prompt, std::uint32_t max_tokens) {
    return ask(request(std::move(prompt), max_tokens));
  }
  std::uint64_t rows() const { return engine->stats().prompt_rows + engine->stats().answer_rows; }
};

// Without prefixes.
Tokens alone(const Tokens& prompt, std::uint32_t max_tokens) {
  EngineOptions options;
  options.prefix_cache = false;
  return Bench(std::move(options)).ask(prompt, max_tokens).tokens;
}

TEST(Prefix, ARepeatedPromptIsReadOnce) {
  Bench bench;
  const Tokens prompt = prompt_of(100);
  const Answer cold = bench.ask(prompt, 20);
  EXPECT_EQ(cold.kv.cached_tokens, 0u);
  EXPECT_EQ(cold.kv.cache_miss_reason, "cold");
  const std::uint64_t before = bench.engine->stats().prompt_rows;
  const Answer warm = bench.ask(prompt, 20);
  EXPECT_EQ(warm.kv.cached_tokens, 99u);
  EXPECT_EQ(warm.kv.cache_miss_reason, "");
  EXPECT_EQ(bench.engine->stats().prompt_rows - before, 1u);
  EXPECT_EQ(warm.tokens, cold.tokens);
  EXPECT_EQ(cold.tokens, alone(prompt, 20));
  EXPECT_EQ(bench.engine->stats().prefix_queries, 200u);
  EXPECT_EQ(bench.engine->stats().prefix_hits, 99u);
}

TEST(Prefix, AConversationGoesOnBehindItsAnswers) {
  Bench bench;
  Tokens history = prompt_of(50);
  for (std::uint32_t turn = 0; turn < 5; ++turn) {
    const Answer answer = bench.ask(history, 30);
    EXPECT_EQ(answer.tokens, alone(history, 30)) << turn;
    if (turn > 0) {
      // All of the last turn but its newest token, which was never computed, and half a unit.
      const auto known = static_cast<std::uint32_t>(history.size()) - 7 - 1;
      EXPECT_GE(answer.kv.cached_tokens, known / 16 * 16) << turn;
      EXPECT_LE(answer.kv.cached_tokens, known) << turn;
      EXPECT_EQ(answer.kv.cache_miss_reason, "cold") << turn;
    }
    history = joined(joined(history, answer.tokens), prompt_of(7, turn + 3));
  }
}

TEST(Prefix, PromptsThatPartAreSharedUpToThere) {
  Bench bench;
  bench.ask(joined(prompt_of(48), prompt_of(40, 1)), 5);
  const Tokens other = joined(prompt_of(48), prompt_of(40, 2));
  const Answer answer = bench.ask(other, 20);
  EXPECT_EQ(answer.kv.cached_tokens, 48u);
  EXPECT_EQ(answer.kv.cache_miss_reason, "differs");
  EXPECT_EQ(answer.tokens, alone(other, 20));
}

TEST(Prefix, OfManyAtOnceTheFirstReadsForAll) {
  for (const std::uint32_t chunk : {7u, 64u, 512u}) {
    Bench bench({}, std::size_t{4} << 20, chunk);
    const Tokens prompt = prompt_of(200);
    std::vector<RequestId> ids;
    for (std::uint32_t i = 0; i < 8; ++i) ids.push_back(bench.submit(prompt, 10));
    bench.engine->run_until_idle();
    // The others at most what is behind the last whole block of 16.
    EXPECT_LE(bench.engine->stats().prompt_rows, 200 + 7 * 8u) << chunk;
    EXPECT_GE(bench.engine->stats().prompt_rows, 200 + 7 * 1u) << chunk;
    for (const RequestId id : ids) EXPECT_EQ(bench.answers[id].tokens, alone(prompt, 10));
  }
}

// Shared beginnings of half a prompt are waited for, small ones not.
TEST(Prefix, WhoWouldGainLittleDoesNotWait) {
  const auto steps_together = [](std::uint32_t common) {
    Bench bench;
    bench.submit(joined(prompt_of(common), prompt_of(30, 1)), 1);
    bench.submit(joined(prompt_of(common), prompt_of(30, 2)), 1);
    bench.engine->step();
    return bench.engine->stats().running + bench.answers.size();
  };
  EXPECT_EQ(steps_together(0), 2u);
  EXPECT_EQ(steps_together(16), 2u);
  EXPECT_EQ(steps_together(32), 1u);
}

TEST(Prefix, NobodyWaitsForSomebodyWhoWasCancelled) {
  Bench bench;
  const Tokens prompt = prompt_of(300);
  const RequestId first = bench.submit(prompt, 10), second = bench.submit(prompt, 10);
  bench.engine->step();
  bench.engine->cancel(first);
  bench.engine->run_until_idle();
  EXPECT_EQ(bench.answers[first].finish, Finish::kCancelled);
  EXPECT_EQ(bench.answers[second].tokens, alone(prompt, 10));
  EXPECT_EQ(bench.answers[second].kv.cached_tokens, 64u) << "what the first had read";
}

TEST(Prefix, LeftoversAreFreeRoom) {
  constexpr std::size_t kBudget = std::size_t{256} << 10;
  Bench bench({}, kBudget);
  const std::uint32_t capacity = bench.cache->tokens_that_fit();
  for (std::uint32_t i = 0; i < 12; ++i) bench.ask(prompt_of(capacity / 3, i), 10);
  EXPECT_GT(bench.cache->stats().prefix.evicted, 0u);
  const EngineStats before = bench.engine->stats();
  // A prompt that needs nearly all there is, and then two that share the pool.
  const Tokens whole = prompt_of(capacity - 60, 77);
  EXPECT_EQ(bench.ask(whole, 20).tokens, alone(whole, 20));
  const RequestId one = bench.submit(prompt_of(capacity / 3, 20), 20);
  const RequestId two = bench.submit(prompt_of(capacity / 3, 21), 20);
  bench.engine->run_until_idle();
  EXPECT_EQ(bench.answers[one].tokens, alone(prompt_of(capacity / 3, 20), 20));
  EXPECT_EQ(bench.answers[two].tokens, alone(prompt_of(capacity / 3, 21), 20));
  const EngineStats after = bench.engine->stats();
  EXPECT_EQ(after.preemptions, 0u);
  EXPECT_EQ(after.pauses, 0u);
  EXPECT_EQ(after.finished - before.finished, 3u);
  // One that needs all may have to be read into a pool without leftovers.
  const Tokens all = prompt_of(capacity - 20, 78);
  EXPECT_EQ(bench.ask(all, 20).tokens, alone(all, 20));
  EXPECT_LE(bench.cache->stats().peak_bytes, kBudget);
}

// The pool has room for one and some: what is preempted finds again what still lies there.
TEST(Prefix, PreemptedRequestsResumeThroughTheIndex) {
  EngineOptions options;
  options.reserve_tokens = 8;
  EngineOptions off = options;
  off.prefix_cache = false;
  const auto recomputed = [](EngineOptions settings) {
    Bench bench(std::move(settings), std::size_t{192} << 10);
    std::map<RequestId, Tokens> expected;
    for (std::uint32_t i = 0; i < 6; ++i) {
      expected[bench.submit(prompt_of(60, i), 90)] = alone(prompt_of(60, i), 90);
    }
    bench.engine->run_until_idle();
    EXPECT_GT(bench.engine->stats().preemptions, 0u);
    for (const auto& [id, tokens] : expected) EXPECT_EQ(bench.answers[id].tokens, tokens);
    return bench.engine->stats().recomputed_rows;
  };
  EXPECT_LT(recomputed(options), recomputed(off));
}

TEST(Prefix, WhoeverDoesNotShareFindsAndLeavesNothing) {
  Bench bench;
  const Tokens prompt = prompt_of(80);
  Request off = bench.request(prompt, 5);
  off.prefix_cache = false;
  EXPECT_EQ(bench.ask(off).kv.cache_miss_reason, "off");
  EXPECT_EQ(bench.cache->stats().prefix.units, 0u);
  EXPECT_EQ(bench.ask(prompt, 5).kv.cached_tokens, 0u);
  EXPECT_EQ(bench.ask(off).kv.cached_tokens, 0u);
  Request salted = bench.request(prompt, 5);
  salted.salt = "a";
  EXPECT_EQ(bench.ask(salted).kv.cached_tokens, 0u);
  EXPECT_EQ(bench.ask(salted).kv.cached_tokens, 79u);
  salted.salt = "b";
  EXPECT_EQ(bench.ask(salted).kv.cached_tokens, 0u);
  // Nor do they wait for each other.
  Request other = bench.request(prompt_of(30, 5), 5);
  bench.submit(other);
  other.salt = "c";
  bench.submit(other);
  bench.engine->step();
  EXPECT_EQ(bench.engine->stats().running, 2u);
}

TEST(Prefix, PoliciesComputeTheRowsTheyMustSee) {
  struct Case {
    const char* policy;
    std::uint32_t cached;  // of 100
    const char* reason;
  };
  for (const Case& one : {Case{"sink-recency:sinks=2,recent=6", 96, "cold"},
                          Case{"knorm:sinks=2,recent=6", 96, "cold"},
                          Case{"snapkv:window=24,sinks=2,recent=6", 76, ""},
                          Case{"h2o:sinks=2,recent=6", 0, "all-rows"}}) {
    SCOPED_TRACE(one.policy);
    const Tokens prompt = prompt_of(100);
    const auto with_policy = [&](Bench& bench) {
      Request request = bench.request(prompt, 40);
      request.options.policy = *make_policy(one.policy);
      request.options.keep = {Keep::Unit::kTokens, 40};
      return bench.ask(std::move(request));
    };
    Bench bench, cold;
    const Answer first = with_policy(bench);
    EXPECT_EQ(first.kv.cached_tokens, 0u);
    const Answer warm = with_policy(bench);
    EXPECT_EQ(warm.kv.cached_tokens, one.cached);
    EXPECT_EQ(warm.kv.cache_miss_reason, one.reason);
    EXPECT_TRUE(warm.kv.lossy);
    EXPECT_EQ(warm.tokens, first.tokens) << "what is dropped is the same";
    EXPECT_EQ(warm.kv.entries_dropped, first.kv.entries_dropped);
    // What it has dropped is whole for others; what it answered is not for them.
    const Answer exact = bench.ask(joined(prompt, warm.tokens), 10);
    EXPECT_EQ(exact.tokens, alone(joined(prompt, warm.tokens), 10));
    EXPECT_LE(exact.kv.cached_tokens, 100u);
    EXPECT_GT(exact.kv.cached_tokens, 90u) << "its prompt was exact until its first review";
  }
}

TEST(Prefix, WhatANanComputedIsForgotten) {
  Bench bench;
  Tokens poisoned = prompt_of(90);
  poisoned[80] = test::kHashPoison;
  const Answer answer = bench.ask(poisoned, 5);
  EXPECT_EQ(answer.error.code(), Code::kNumeric);
  EXPECT_EQ(bench.cache->stats().prefix.units, 0u);
}

TEST(Prefix, EveryByteComesBack) {
  for (std::uint32_t at = 0; at < 40; ++at) {
    Bench bench;
    const RequestId stays = bench.submit(prompt_of(40), 30);
    const RequestId goes = bench.submit(joined(prompt_of(40), prompt_of(60, 1)), 20);
    for (std::uint32_t step = 0; step < at; ++step) bench.engine->step();
    bench.engine->cancel(goes);
    bench.engine->run_until_idle();
    EXPECT_EQ(bench.answers[stays].tokens, alone(prompt_of(40), 30));
    EXPECT_EQ(bench.cache->stats().sequences, 0u);
    bench.cache->forget();
    bench.cache->check_invariants();
    const CacheStats stats = bench.cache->stats();
    EXPECT_EQ(stats.prefix.units, 0u);
    EXPECT_EQ(stats.kv_bytes - stats.headroom_bytes, 0u) << at;
  }
}

TEST(Prefix, AShorterReadOvertakesWhereTheOrderIsByIt) {
  EngineOptions options;
  options.max_running = 1;
  options.order = *make_queue_order("cache-aware:eta=0.01", options.ageing_seconds);
  options.cost = {1, 0.125, 0};
  Bench bench(std::move(options));
  bench.ask(prompt_of(400), 1);
  std::vector<RequestId> order;
  const auto submit = [&](Tokens prompt) {
    Request request = bench.request(std::move(prompt), 5);
    request.on_done = [&](RequestId id, const Answer&) { order.push_back(id); };
    return bench.submit(std::move(request));
  };
  const RequestId runs = submit(prompt_of(20, 9));
  bench.engine->step();
  const RequestId cold = submit(prompt_of(300, 1)), cached = submit(prompt_of(400)),
                  brief = submit(prompt_of(40, 2));
  bench.engine->run_until_idle();
  EXPECT_EQ(order, (std::vector<RequestId>{runs, cached, brief, cold}));
}

}  // namespace
}  // namespace quire::engine
