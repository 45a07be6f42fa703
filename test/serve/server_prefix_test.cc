// Goal: what requests have in common is computed once, which is said in every answer, changes none,
//   and never crosses a salt or a key.
// Method: a small random model, in the deterministic mode, behind a server in this process; the
//   same prompts asked under different names.

#include <gtest/gtest.h>

#include "engine/sha256.h"
#include "serve/served.h"
#include "serve/tiny_server_model.h"

namespace quire {
namespace {

using nlohmann::json;
using test::Events;
using test::HttpClient;
using test::HttpReply;
using test::Served;

class ServerPrefixTest : public test::TinyModelTest {
 protected:
  std::unique_ptr<Served> serve(serve::ServerOptions options = {}) {
    cache_ = test::attached_cache(*model_, std::size_t{4} << 20,
                                  {.hash = engine::sha256, .identity = "tiny"});
    options.defaults.sampler.temperature = 0;
    return std::make_unique<Served>(*model_, *cache_, std::move(options));
  }
  // 80 tokens that are asked for `more`.
  static json ask(const json& more = json::object()) {
    json body = {{"prompt", json::array()}, {"max_tokens", 6}, {"ignore_eos", true}};
    for (int i = 0; i < 80; ++i) body["prompt"].push_back(3 + i * 7 % 90);
    if (more.is_object()) body.update(more);
    return body;
  }
  static int cached(const json& answer) {
    const int tokens = answer["usage"]["prompt_tokens_details"]["cached_tokens"];
    EXPECT_EQ(answer["kv"]["cached_tokens"], tokens);
    EXPECT_EQ(answer["timings"]["cache_n"], tokens);
    EXPECT_EQ(answer["timings"]["prompt_n"], 80 - tokens);
    return tokens;
  }

  std::unique_ptr<Cache> cache_;
};

TEST_F(ServerPrefixTest, TheSecondTimeOnlyTheLastTokenIsComputed) {
  const auto served = serve();
  HttpClient client(served->port());
  const json cold = client.post("/v1/completions", ask()).json();
  EXPECT_EQ(cached(cold), 0);
  EXPECT_EQ(cold["kv"]["cache_miss_reason"], "cold");
  const json warm = client.post("/v1/completions", ask()).json();
  EXPECT_EQ(cached(warm), 79);
  EXPECT_EQ(warm["kv"]["cache_miss_reason"], nullptr);
  EXPECT_EQ(warm["choices"][0]["text"], cold["choices"][0]["text"]);

  json streamed = ask({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  const Events events(client.post("/v1/completions", streamed).body);
  EXPECT_EQ(events.chunks.back()["usage"]["prompt_tokens_details"]["cached_tokens"], 79);
  EXPECT_EQ(events.text(), cold["choices"][0]["text"]);

  EXPECT_EQ(client.get("/props").json()["kv"]["prefix_cache"], true);
  const std::string metrics = client.get("/metrics").body;
  EXPECT_EQ(test::sample(metrics, "quire:prefix_cache_queries_total"), 240);
  EXPECT_EQ(test::sample(metrics, "quire:prefix_cache_hits_total"), 158);
  EXPECT_EQ(test::sample(metrics, "quire:cache_miss_reason_total{reason=\"cold\"}"), 1);
  EXPECT_GE(test::sample(metrics, "quire:prefix_cache_units"), 5);
}

TEST_F(ServerPrefixTest, ManyAnswersReadTheirPromptOnce) {
  const auto served = serve();
  HttpClient client(served->port());
  const json answer = client.post("/v1/completions", ask({{"n", 4}, {"temperature", 1}})).json();
  ASSERT_EQ(answer["choices"].size(), 4u);
  EXPECT_EQ(answer["choices"][0]["kv"]["cached_tokens"], 0);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(answer["choices"][i]["kv"]["cached_tokens"], 79) << i;
  }
}

TEST_F(ServerPrefixTest, WhoDoesNotWantToShareDoesNot) {
  const auto served = serve();
  HttpClient client(served->port());
  const auto cached_of = [&](const json& more) {
    return cached(client.post("/v1/completions", ask(more)).json());
  };
  EXPECT_EQ(cached_of({{"cache_prompt", false}}), 0);
  EXPECT_EQ(cached_of({}), 0) << "it left nothing";
  const json off = client.post("/v1/completions", ask({{"cache_prompt", false}})).json();
  EXPECT_EQ(cached(off), 0);
  EXPECT_EQ(off["kv"]["cache_miss_reason"], "off");
  EXPECT_EQ(cached_of({{"cache_prompt", true}}), 79);
  EXPECT_EQ(cached_of({{"cache_salt", "a"}}), 0);
  EXPECT_EQ(cached_of({{"cache_salt", "b"}}), 0);
  EXPECT_EQ(cached_of({{"cache_salt", "a"}}), 79);
  const json all = client.post("/v1/completions", ask({{"kv", {{"policy", "h2o"}}}})).json();
  EXPECT_EQ(cached(all), 0);
  EXPECT_EQ(all["kv"]["cache_miss_reason"], "all-rows");
}

TEST_F(ServerPrefixTest, EveryKeyIsATenantOfItsOwn) {
  serve::ServerOptions options;
  options.access.keys = {"first-tenants-key", "other-tenants-key"};
  const auto served = serve(std::move(options));
  HttpClient client(served->port());
  const auto cached_of = [&](const std::string& key, const json& more) {
    return cached(
        client.post("/v1/completions", ask(more), {"Authorization: Bearer " + key}).json());
  };
  EXPECT_EQ(cached_of("first-tenants-key", {}), 0);
  EXPECT_EQ(cached_of("other-tenants-key", {}), 0);
  EXPECT_EQ(cached_of("first-tenants-key", {}), 79);
  EXPECT_EQ(cached_of("first-tenants-key", {{"cache_salt", "mine"}}), 0);
  // A salt that spells the other's tenant opens nothing.
  const json forged = {{"cache_salt", engine::sha256_hex("other-tenants-key")}};
  EXPECT_EQ(cached_of("first-tenants-key", forged), 0);
  EXPECT_EQ(cached_of("other-tenants-key", {}), 79);
}

TEST_F(ServerPrefixTest, WithoutTheCacheNothingIsShared) {
  serve::ServerOptions options;
  options.engine.prefix_cache = false;
  const auto served = serve(std::move(options));
  HttpClient client(served->port());
  for (int i = 0; i < 2; ++i) {
    const json answer = client.post("/v1/completions", ask()).json();
    EXPECT_EQ(cached(answer), 0);
    EXPECT_EQ(answer["kv"]["cache_miss_reason"], "disabled");
  }
  EXPECT_EQ(client.get("/props").json()["kv"]["prefix_cache"], false);
}

}  // namespace
}  // namespace quire
