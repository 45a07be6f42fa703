// Goal: no key gets more than its rate, whatever order it asks in, and each is told when to come
//   again, in OpenAI's shape.
// Method: a clock that is a number; the last test over a socket.

#include "serve/rate_limit.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "engine/fake_model.h"
#include "serve/served.h"
#include "support/seed.h"

namespace quire::serve {
namespace {

TEST(RateLimit, IsReadFromText) {
  EXPECT_EQ(*parse_rate("60"), 60u);
  EXPECT_EQ(*parse_rate("60/min"), 60u);
  EXPECT_EQ(*parse_rate("2/s"), 120u);
  for (const char* const text : {"", "0", "-1", "60/h", "60 /min", "9999999999", "1000000000/s"}) {
    EXPECT_NE(parse_rate(text).status().message().find("is not a rate"), std::string::npos) << text;
  }
}

TEST(RateLimit, AMinutesWorthAtOnceThenEvenly) {
  RateLimiter limiter({.requests = 6}, 2);
  for (int i = 0; i < 6; ++i) {
    const auto verdict = limiter.ask(0, 100);
    EXPECT_EQ(verdict.over, nullptr);
    EXPECT_EQ(verdict.requests.left, static_cast<std::uint32_t>(5 - i));
  }
  const auto over = limiter.ask(0, 100);
  EXPECT_STREQ(over.over, "requests");
  EXPECT_DOUBLE_EQ(over.wait_seconds, 10);
  EXPECT_DOUBLE_EQ(over.requests.full_seconds, 60);
  EXPECT_NE(limiter.ask(0, 109.9).over, nullptr) << "a refused one does not count";
  EXPECT_EQ(limiter.ask(0, 110).over, nullptr);
  EXPECT_NE(limiter.ask(0, 110).over, nullptr);
  EXPECT_EQ(limiter.ask(1, 110).over, nullptr) << "another key has its own";
  EXPECT_EQ(limiter.ask(0, 1000).requests.left, 5u) << "never more than a minute's worth";
}

TEST(RateLimit, TokensAreSetAsideAndGivenBack) {
  RateLimiter limiter({.tokens = 600}, 1);
  EXPECT_EQ(limiter.ask(0, 0).over, nullptr) << "requests have no limit";
  EXPECT_EQ(limiter.reserve(0, 500, 0).over, nullptr);
  const auto over = limiter.reserve(0, 200, 0);
  EXPECT_STREQ(over.over, "tokens");
  EXPECT_DOUBLE_EQ(over.wait_seconds, 10);
  limiter.settle(0, 500, 100, 0);
  EXPECT_EQ(limiter.reserve(0, 200, 0).tokens.left, 300u);
  limiter.settle(0, 200, 200, 0);
  // What is over a minute's worth takes all of it, and can be had.
  EXPECT_EQ(limiter.reserve(0, 10'000, 60).over, nullptr);
  EXPECT_STREQ(limiter.reserve(0, 1, 60).over, "tokens");
  limiter.settle(0, 10'000, 0, 60);
  EXPECT_EQ(limiter.reserve(0, 600, 60).over, nullptr);
}

// Of any minute and what was full before it: at most two minutes' worth, on every schedule.
TEST(RateLimit, IsNeverPassed) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE("QUIRE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t limit = 1 + static_cast<std::uint32_t>(random() % 50);
    RateLimiter limiter({.requests = limit}, 1);
    std::vector<double> admitted;
    double now = 0;
    for (int i = 0; i < 500; ++i) {
      now += static_cast<double>(random() % 1000) / 500.0;
      const auto verdict = limiter.ask(0, now);
      if (verdict.over == nullptr) {
        admitted.push_back(now);
      } else {
        RateLimiter copy = limiter;
        EXPECT_NE(copy.ask(0, now + verdict.wait_seconds * 0.99).over, nullptr);
        EXPECT_EQ(copy.ask(0, now + verdict.wait_seconds * 1.0001).over, nullptr);
      }
    }
    for (std::size_t i = 0; i < admitted.size(); ++i) {
      const auto end = std::ranges::lower_bound(admitted, admitted[i] + 60);
      EXPECT_LE(static_cast<std::size_t>(end - admitted.begin()) - i, std::size_t{2} * limit);
    }
  }
}

TEST(RateLimit, SaysSoInOpenAisShape) {
  RateLimiter limiter({.requests = 3, .tokens = 1000}, 1);
  const auto verdict = limiter.ask(0, 0);
  EXPECT_EQ(rate_fields(verdict),
            "x-ratelimit-limit-requests: 3\r\nx-ratelimit-remaining-requests: 2\r\n"
            "x-ratelimit-reset-requests: 20s\r\nx-ratelimit-limit-tokens: 1000\r\n"
            "x-ratelimit-remaining-tokens: 1000\r\nx-ratelimit-reset-tokens: 0ms\r\n");
  limiter.reserve(0, 1000, 0);
  const Reply reply = over_rate_reply(limiter.reserve(0, 100, 0));
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.fields[0], std::pair(std::string("Retry-After"), std::string("6")));
  const auto error = nlohmann::json::parse(reply.body)["error"];
  EXPECT_EQ(error["type"], "tokens");
  EXPECT_EQ(error["code"], "rate_limit_exceeded");
  EXPECT_EQ(error["param"], nullptr);
  EXPECT_EQ(error["message"],
            "rate limit reached: 1000 tokens a minute of one key; come again in 6s");
}

TEST(RateLimit, OverASocket) {
  test::FakeModel model(1000);
  const auto cache = Cache::open({.layers = model.info().attention, .budget_bytes = 4u << 20});
  ASSERT_TRUE(cache.ok());
  ASSERT_TRUE(model.attach(**cache).ok());
  ServerOptions options;
  options.defaults.make_sampler = [](const model::Model&, const model::SamplerOptions&) {
    return Result<std::unique_ptr<model::Sampler>>(std::make_unique<test::GreedySampler>());
  };
  options.access.keys = {"first-key", "second-key"};
  options.rate = {.requests = 2, .tokens = 300};
  const test::Served served(model, **cache, options);
  test::HttpClient client(served.port());
  const auto ask = [&](const char* key, int tokens) {
    return client.post("/v1/completions",
                       {{"prompt", "abc"}, {"max_tokens", tokens}, {"ignore_eos", true}},
                       {std::string("Authorization: Bearer ") + key});
  };
  const test::HttpReply first = ask("first-key", 100);
  EXPECT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(first.field("x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(first.field("x-ratelimit-remaining-requests"), "1");
  EXPECT_EQ(first.field("x-ratelimit-remaining-tokens"), "197") << "set aside";
  const test::HttpReply tokens = ask("first-key", 290);
  EXPECT_EQ(tokens.status, 429) << "100 are used";
  EXPECT_EQ(tokens.json()["error"]["type"], "tokens");
  const test::HttpReply requests = ask("first-key", 1);
  EXPECT_EQ(requests.status, 429);
  EXPECT_EQ(requests.json()["error"]["type"], "requests");
  EXPECT_GE(std::stoi(requests.field("retry-after")), 1);
  EXPECT_EQ(ask("second-key", 1).status, 200) << "on the same connection, with its own limit";
  EXPECT_EQ(client.get("/health").status, 200) << "what computes nothing is not counted";
}

}  // namespace
}  // namespace quire::serve
