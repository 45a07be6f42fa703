// Goal: long requests in a pool that holds two of them say to the letter what each says alone,
// while
//   they are preempted, prefixes they share are evicted, and a lossy one's blocks are moved
//   together.
// Method: the built program on SmolLM2, deterministic; sampled with seeds, so that a bit that
// changes
//   is a text that changes; /metrics says that all of it did happen.

#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

#include "cli/server_program.h"

namespace quire {
namespace {

using nlohmann::json;
using test::Events;
using test::HttpClient;
using test::ServerProgram;

// All prompts begin alike, with 120 tokens; then each is its own.
json request(int which) {
  json body = {{"prompt", json::array()}, {"max_tokens", 420}, {"ignore_eos", true},
               {"temperature", 0.9},      {"seed", which},     {"stream", true}};
  for (int i = 0; i < 120; ++i) body["prompt"].push_back(1000 + i * 37 % 9000);
  for (int i = 0; i < 180; ++i) body["prompt"].push_back(12'000 + (which * 977 + i * 53) % 9000);
  return body;
}

json with(json body, const json& more) {
  body.update(more);
  return body;
}

std::string text_of(const ServerProgram& server, const json& body) {
  const test::HttpReply reply = HttpClient(server.port()).post("/v1/completions", body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  const Events events(reply.body);
  EXPECT_TRUE(events.done);
  EXPECT_EQ(events.finish(), "length");
  return events.text();
}

TEST(ServePressure, SixInAPoolForTwoSayWhatTheySayAlone) {
  const std::string path = test::real_model(test::kSmolLm);
  QUIRE_NEED(path);
  // 720 tokens each, 17 MB.
  ServerProgram server(path, {"--budget", "34MiB", "--max-running", "6"});
  ASSERT_NE(server.port(), 0);
  std::vector<std::string> alone, together(6);
  for (int i = 0; i < 6; ++i) {
    alone.push_back(text_of(server, with(request(i), {{"cache_prompt", false}})));
  }
  EXPECT_EQ(server.metric("quire:num_preemptions_total"), 0) << "alone nobody makes way";
  EXPECT_EQ(server.metric("quire:prefix_cache_entered_total"), 0);

  std::vector<std::thread> clients;
  // Of the lossy one's 600 tokens a review leaves every fourth.
  json lossy = with(request(9), {{"kv", {{"policy", "random"}, {"keep", "25%"}}}});
  for (int i = 0; i < 300; ++i) lossy["prompt"].push_back(2000 + i);
  clients.emplace_back([&] { text_of(server, lossy); });
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] { together[i] = text_of(server, request(i)); });
  }
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(together[i], alone[i]) << i;

  for (const char* name : {"num_preemptions_total", "repack_blocks_freed_total",
                           "prefix_cache_hits_total", "prefix_cache_evictions_total"}) {
    const double count = server.metric(std::string("quire:") + name);
    std::printf("%s %.0f\n", name, count);
    EXPECT_GT(count, 0) << name;
  }
  server.wait_for("quire:kv_sequences", 0);
  EXPECT_EQ(server.stop().status, 0);
}

}  // namespace
}  // namespace quire
