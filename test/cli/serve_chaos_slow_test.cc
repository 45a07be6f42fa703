// Goal: whatever strangers send to a server of a real model, and whenever they leave it: who
// streams
//   beside them gets to the letter what it gets alone, memory stays bounded, every block comes
//   back, faults of clients are 4xx, and the server serves on.
// Method: the built program on SmolLM2, deterministic, with the prefix cache and without; plain
//   sockets; requests of cli/wild_requests.h.  /slots says how far a request is, /metrics what is
//   left of it.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>

#include "cli/server_program.h"
#include "cli/wild_requests.h"

namespace quire {
namespace {

using nlohmann::json;
using test::Events;
using test::HttpClient;
using test::HttpReply;
using test::ServerProgram;
using test::WildRequest;

constexpr std::size_t kBudget = std::size_t{48} << 20;  // 2,184 tokens
// Beside weights and budget, the most ever: bodies of 8 MiB, and what is made of one at a time.
constexpr std::size_t kMore = std::size_t{256} << 20;

class Chaos : public testing::TestWithParam<const char*> {
 protected:
  void serve(std::vector<std::string> flags = {}) {
    const std::string path = test::real_model(test::kSmolLm);
    QUIRE_NEED(path);
    flags.insert(flags.end(), {"--budget", "48MiB", "--chunk", "32", "--max-running", "3",
                               "--max-tokens", "1", "--prefix-cache", GetParam()});
    server_ = std::make_unique<ServerProgram>(path, flags);
    ASSERT_NE(server_->port(), 0);
    rss_ = server_->rss_bytes();
    alone_ = streamed();
    ASSERT_GT(alone_.size(), 80u);
  }
  // What is left of it all.
  void TearDown() override {
    if (server_ == nullptr || server_->port() == 0) return;
    ASSERT_FALSE(server_->has_ended());
    for (const char* name : {"kv_sequences", "num_requests_running", "num_requests_waiting"}) {
      server_->wait_for(std::string("quire:") + name, 0);
    }
    const auto codes = "quire:kv_bytes{tier=\"ram\",kind=\"codes\"}";
    const double held = server_->metric("quire:prefix_cache_bytes");
    EXPECT_LE(server_->metric(codes), held) << "what prefix units hold, and nothing else";
    EXPECT_EQ(held > 0, std::string(GetParam()) == "on");
    EXPECT_EQ(server_->metric("quire:http_requests_total{status=\"5xx\"}"),
              server_->metric("quire:admission_rejections_total"));
    EXPECT_EQ(streamed(), alone_) << "it serves on";
    const std::size_t most = server_->peak_rss_bytes() - rss_;
    std::printf("memory: %zu MiB at its start, at most %zu more\n", rss_ >> 20, most >> 20);
    EXPECT_LT(most, kBudget + kMore);
    EXPECT_EQ(server_->stop().status, 0);
  }

  std::uint16_t port() const { return server_->port(); }
  // The bystander: sampled, so that a bit that changes is a text that changes.  Where the queue is
  // full it comes again, as it is told to.
  std::string streamed() const {
    const json ask = {{"messages", {{{"role", "user"}, {"content", "Tell me of the sea."}}}},
                      {"max_tokens", 64},
                      {"ignore_eos", true},
                      {"temperature", 0.8},
                      {"seed", 5},
                      {"stream", true}};
    HttpClient client(port());
    HttpReply reply = client.post("/v1/chat/completions", ask);
    while (reply.status == 503) reply = client.post("/v1/chat/completions", ask);
    EXPECT_EQ(reply.status, 200) << reply.body;
    const Events events(reply.body);
    EXPECT_TRUE(events.done);
    return events.text();
  }
  // While the bystander streams, again and again.
  void beside(const std::function<void()>& act) {
    std::atomic<bool> over = false;
    std::thread bystander([&] {
      do {
        EXPECT_EQ(streamed(), alone_);
      } while (!over);
    });
    act();
    over = true;
    bystander.join();
  }
  // A prompt is known by its number of tokens among those of all others.
  static std::string ask(int prompt, int answer, const json& more = json::object()) {
    json body = {{"prompt", json::array()}, {"max_tokens", answer}, {"ignore_eos", true}};
    for (int i = 0; i < prompt; ++i) body["prompt"].push_back(1000 + (i * 37 + prompt) % 20'000);
    if (more.is_object()) body.update(more);
    return HttpClient::request("POST", "/v1/completions", body.dump());
  }
  // How far the request with that prompt is: kGone, waiting, reading, answering.
  enum Phase : std::uint8_t { kGone, kWaiting, kReading, kAnswering };
  static Phase phase_of(HttpClient& client, int prompt) {
    for (const json& slot : client.get("/slots").json()) {
      if (slot["prompt_tokens"] != prompt) continue;
      return slot["state"] == "answering" ? kAnswering
             : slot["state"] == "reading" ? kReading
                                          : kWaiting;
    }
    return kGone;
  }
  void wait_until(int prompt, Phase phase) const {
    HttpClient client(port());
    const auto there = [&] {
      const Phase now = phase_of(client, prompt);
      return phase == kGone ? now == kGone : now >= phase;
    };
    while (!server_->has_ended() && !there()) sched_yield();
  }

  std::unique_ptr<ServerProgram> server_;
  std::size_t rss_ = 0;  // once the model is there
  std::string alone_;
};

INSTANTIATE_TEST_SUITE_P(PrefixCache, Chaos, testing::Values("on", "off"),
                         [](const auto& cache) { return std::string(cache.param); });

TEST_P(Chaos, WhoLeavesInAnyPhaseIsForgotten) {
  serve();
  constexpr int kNever = 1500;  // tokens of an answer that nobody waits for; the pool holds it
  constexpr int kRounds = 2;
  beside([&] {
    for (int round = 0; round < kRounds; ++round) {
      const std::string text = ask(300, kNever);
      const std::size_t body = text.find("\r\n\r\n") + 4;
      for (const std::size_t sent : {std::size_t{0}, std::size_t{9}, body - 2, body,
                                     (body + text.size()) / 2, text.size() - 1}) {
        HttpClient(port()).send_bytes(text.substr(0, sent));
      }
      for (const Phase phase : {kReading, kAnswering}) {
        for (const bool stream : {false, true}) {
          HttpClient leaves(port());
          leaves.send_bytes(ask(500, kNever, {{"stream", stream}, {"cache_prompt", false}}));
          wait_until(500, phase);
          leaves.leave();
          wait_until(500, kGone);
        }
      }
      // Three are computed at a time, the bystander is a fourth: the last one waits.
      HttpClient first(port()), second(port()), third(port()), waits(port());
      first.send_bytes(ask(201, kNever, {{"stream", true}}));
      second.send_bytes(ask(202, kNever));
      third.send_bytes(ask(203, kNever, {{"n", 2}}));
      for (const int prompt : {201, 202, 203}) wait_until(prompt, kWaiting);
      waits.send_bytes(ask(204, kNever));
      wait_until(204, kWaiting);
      waits.leave();
      wait_until(204, kGone);
      EXPECT_EQ(first.receive_head().status, 200);
    }
  });
  // Each of a round: four alone, and five answers of four.
  server_->wait_for("quire:request_success_total{finished_reason=\"abort\"}", 9 * kRounds);
}

TEST_P(Chaos, WildValuesInEveryField) {
  serve();
  int taken = 0, refused = 0;
  beside([&] {
    HttpClient client(port());
    for (const WildRequest& wild : test::wild_requests()) {
      const HttpReply reply = client.ask("POST", wild.path, wild.body);
      const std::string what = wild.path + " " + wild.body.substr(0, 200) + "\n" + reply.body;
      ++(reply.status == 200 ? taken : refused);
      if (reply.status == 200) continue;
      ASSERT_EQ(reply.status, 400) << what;
      const json error = reply.json()["error"];
      EXPECT_TRUE(error["message"].is_string() && !error["message"].empty()) << what;
      EXPECT_TRUE(error["param"].is_string() || error["code"] == "invalid_json") << what;
    }
  });
  std::printf("%d taken, %d refused\n", taken, refused);
  EXPECT_GT(taken, 200);
  EXPECT_GT(refused, 2000);
}

TEST_P(Chaos, BombsAreRefused) {
  serve();
  std::vector<WildRequest> bombs = test::json_bombs();
  for (WildRequest& bomb : test::form_bombs()) bombs.push_back(std::move(bomb));
  std::size_t after_first = 0;
  beside([&] {
    for (int round = 0; round < 5; ++round) {
      for (const WildRequest& bomb : bombs) {
        HttpClient client(port());
        const HttpReply reply = client.ask("POST", bomb.path, bomb.body);
        EXPECT_TRUE(reply.status == 400 || reply.status == 413)
            << bomb.path << " " << bomb.body.substr(0, 200) << "\n"
            << reply.status << " " << reply.body.substr(0, 300);
      }
      if (round == 0) after_first = server_->rss_bytes();
    }
  });
  const std::size_t after = server_->rss_bytes();
  std::printf("memory after a round %zu MiB, after five %zu\n", after_first >> 20, after >> 20);
  std::size_t weight = 0;
  for (const WildRequest& bomb : bombs) weight += bomb.body.size();
  // The pool goes on filling with what the bystander makes; four rounds that stayed would be more.
  EXPECT_LT(after, after_first + kBudget + 2 * weight) << "bombs leave nothing";
}

TEST_P(Chaos, BytesThatAreNoText) {
  serve();
  beside([&] {
    const std::string bytes[] = {
        "\xFF",     "\xC0\x80",     "\xED\xA0\x80",          "\xF4\x90\x80\x80",
        "\xE2\x82", "\x80\x80\x80", std::string("\0\x01", 2)};
    for (const std::string& text : bytes) {
      for (const std::string& body :
           {"{\"prompt\": \"" + text + "\"}", "{\"" + text + "\": 1, \"prompt\": \"x\"}",
            "{\"prompt\": \"x\", \"stop\": \"" + text + "\"}", text}) {
        EXPECT_EQ(HttpClient(port()).ask("POST", "/v1/completions", body).status, 400) << body;
      }
      for (const std::string& head :
           {"GET /" + text + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "GET /health HTTP/1.1\r\nHost: " + text + "\r\n\r\n",
            "GET /health HTTP/1.1\r\nHost: localhost\r\nx-request-id: " + text + "\r\n\r\n",
            text + " / HTTP/1.1\r\n\r\n", text + "\r\n\r\n"}) {
        HttpClient client(port());
        client.send_bytes(head);
        const int status = client.receive().status;
        EXPECT_TRUE(status == 200 || (status >= 400 && status < 500)) << status << " " << head;
      }
    }
    // Tokens at random are bytes at random; what is sent is text all the same.
    for (int seed = 0; seed < 4; ++seed) {
      const json body = {{"prompt", "x"},
                         {"max_tokens", 40},
                         {"temperature", 100},
                         {"ignore_eos", true},
                         {"seed", seed},
                         {"stream", true},
                         {"n", 3},
                         {"logprobs", 3}};
      const HttpReply reply = HttpClient(port()).post("/v1/completions", body);
      EXPECT_EQ(reply.status, 200) << reply.body;
      EXPECT_TRUE(Events(reply.body).done) << "each event is JSON, so UTF-8";
    }
  });
}

TEST_P(Chaos, SlowReadersEndAlone) {
  serve();
  constexpr int kReaders = 2;
  beside([&] {
    std::vector<std::unique_ptr<HttpClient>> readers;
    for (int i = 0; i < kReaders; ++i) {
      readers.push_back(std::make_unique<HttpClient>(port(), 4096));
      readers.back()->send_bytes(ask(30 + i, 2000, {{"stream", true}, {"logprobs", 20}}));
    }
    server_->wait_for("quire:slow_readers_total", kReaders);
    for (const auto& reader : readers) {  // who reads on is told
      const std::string body = reader->receive().body;
      EXPECT_NE(body.find("too slow"), std::string::npos);
      EXPECT_TRUE(body.ends_with("data: [DONE]\n\n"));
    }
  });
}

TEST_P(Chaos, PromptsTooLongAndAFullPool) {
  serve({"--max-waiting", "6"});
  beside([&] {
    for (const std::string& text : {ask(9000, 1), ask(100, 8100), ask(3000, 100)}) {
      HttpClient client(port());
      client.send_bytes(text);
      const HttpReply reply = client.receive();
      EXPECT_EQ(reply.status, 400) << reply.body;
    }
    // Thirty that fill a third of the pool each.
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (int i = 0; i < 30; ++i) {
      clients.push_back(std::make_unique<HttpClient>(port()));
      clients.back()->send_bytes(ask(700 + i, 100, {{"stream", i % 2 == 0}}));
    }
    int answered = 0;
    for (const auto& client : clients) {
      const HttpReply reply = client->receive();
      EXPECT_TRUE(reply.status == 200 || reply.status == 503) << reply.body;
      answered += reply.status == 200 ? 1 : 0;
      if (reply.status == 503) {
        EXPECT_EQ(reply.json()["error"]["code"], "queue_full");
        EXPECT_EQ(reply.field("retry-after"), "2");
      }
    }
    EXPECT_GE(answered, 8);
    EXPECT_LT(answered, 30);
  });
  std::printf("%.0f preemptions\n", server_->metric("quire:num_preemptions_total"));
}

}  // namespace
}  // namespace quire
