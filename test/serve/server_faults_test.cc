// Goal: clients that leave, dawdle, knock too often or may not ask cost nobody else anything; a
//   server that goes down finishes what it has begun.
// Method: a made-up model (engine/fake_model.h) whose steps a test can hold; plain sockets; what
//   happens on other threads is waited for by asking /metrics.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/fake_model.h"
#include "serve/routes.h"
#include "serve/served.h"

namespace quire {
namespace {

using nlohmann::json;
using test::Events;
using test::HttpClient;
using test::HttpReply;
using test::Served;

// Steps wait before it while it is shut.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    held_ = !open_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    held_ = false;
  }
  // Returns when a step waits.
  void wait_until_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return held_; });
  }
  void set(bool open) {
    {
      const std::scoped_lock lock(mutex_);
      open_ = open;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true, held_ = false;
};

// Of this process, clients and server: what it has now.
std::size_t rss_bytes() {
  std::size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

serve::ServerOptions greedy(serve::ServerOptions options = {}) {
  options.defaults.make_sampler =
      [](const model::Model&,
         const model::SamplerOptions&) -> Result<std::unique_ptr<model::Sampler>> {
    return std::unique_ptr<model::Sampler>(std::make_unique<test::GreedySampler>());
  };
  return options;
}

class ServerFaults : public testing::Test {
 protected:
  void SetUp() override {
    auto cache = Cache::open(
        {.layers = test::fake_attention(), .budget_bytes = std::size_t{16} << 20, .max_rows = 64});
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    cache_ = *std::move(cache);
    ASSERT_TRUE(model_.attach(*cache_).ok());
    model_.before_step = [this] { gate_.pass(); };
  }
  void TearDown() override {
    gate_.set(true);
    served_.reset();
    EXPECT_EQ(cache_->stats().sequences, 0u) << "every block is back";
    cache_->check_invariants();
  }
  Served& serve(serve::ServerOptions options = {}) {
    served_ = std::make_unique<Served>(model_, *cache_, greedy(std::move(options)));
    return *served_;
  }
  static std::string ask(int tokens, bool stream = false) {
    return HttpClient::request(
        "POST", "/v1/completions",
        json({{"prompt", "abc"}, {"max_tokens", tokens}, {"ignore_eos", true}, {"stream", stream}})
            .dump());
  }
  // Until so many answers are computed, and so many wait.
  void wait_for_slots(std::size_t count) {
    while (HttpClient(served_->port()).get("/slots").json().size() != count) sched_yield();
  }

  test::FakeModel model_;
  std::unique_ptr<Cache> cache_;
  Gate gate_;
  std::unique_ptr<Served> served_;
};

TEST_F(ServerFaults, WhoLeavesWhileWaitingOrAnsweredIsForgotten) {
  serve::ServerOptions options;
  options.engine.max_running = 1;
  Served& served = serve(options);
  gate_.set(false);
  HttpClient stays(served.port()), waits(served.port()), first(served.port());
  stays.send_bytes(ask(30));
  wait_for_slots(1);
  waits.send_bytes(ask(30));
  wait_for_slots(2);
  first.send_bytes(ask(30, true));
  wait_for_slots(3);
  waits.leave();
  first.leave();
  served.wait_for("quire:client_disconnects_total", 2);
  gate_.set(true);
  const HttpReply reply = stays.receive();
  EXPECT_EQ(reply.json()["usage"]["completion_tokens"], 30);
  wait_for_slots(0);
  EXPECT_EQ(served.metric("quire:request_success_total{finished_reason=\"abort\"}"), 2);
  served.wait_for("quire:kv_sequences", 0);
}

TEST_F(ServerFaults, WhoLeavesInMidAnswerFreesItsBlocks) {
  Served& served = serve();
  HttpClient client(served.port());
  client.send_bytes(ask(5000, true));
  EXPECT_EQ(client.receive_head().status, 200);
  client.leave();
  served.wait_for("quire:request_success_total{finished_reason=\"abort\"}", 1);
  served.wait_for("quire:kv_sequences", 0);
  EXPECT_EQ(served.metric("quire:client_disconnects_total"), 1);
}

TEST_F(ServerFaults, AFullQueueSaysComeAgain) {
  serve::ServerOptions options;
  options.limits.answers = 2;
  Served& served = serve(options);
  gate_.set(false);
  HttpClient one(served.port()), two(served.port()), three(served.port());
  one.send_bytes(ask(5));
  two.send_bytes(ask(5));
  wait_for_slots(2);
  three.send_bytes(ask(5));
  const HttpReply refused = three.receive();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.field("retry-after"), "2");
  EXPECT_EQ(refused.json()["error"]["code"], "queue_full");
  gate_.set(true);
  EXPECT_EQ(one.receive().status, 200);
  EXPECT_EQ(two.receive().status, 200);
  three.send_bytes(ask(5));
  EXPECT_EQ(three.receive().status, 200) << "the same connection, later";
  EXPECT_EQ(served.metric("quire:admission_rejections_total"), 1);
}

TEST_F(ServerFaults, HundredsOfStreamsWaitAndEachIsAnswered) {
  constexpr std::size_t kStreams = 256;
  serve::ServerOptions options;
  options.engine.max_running = 2;
  Served& served = serve(options);
  HttpClient first(served.port());
  first.send_bytes(ask(6, true));
  const std::string text = Events(first.receive().body).text();
  EXPECT_FALSE(text.empty());

  gate_.set(false);
  const std::size_t before = rss_bytes();
  std::vector<std::unique_ptr<HttpClient>> streams;
  for (std::size_t i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<HttpClient>(served.port()));
    streams.back()->send_bytes(ask(6, true));
  }
  wait_for_slots(kStreams);
  const std::size_t now = rss_bytes(), more = now - std::min(now, before);
  std::printf("%zu streams that wait: %zu KiB\n", kStreams, more >> 10);
  EXPECT_LT(more, kStreams * (std::size_t{128} << 10)) << "of both ends";
  EXPECT_EQ(first.get("/health").status, 200) << "who asks something else is answered meanwhile";
  for (std::size_t i = 0; i < kStreams; i += 4) streams[i]->leave();
  served.wait_for("quire:client_disconnects_total", kStreams / 4);
  gate_.set(true);
  for (std::size_t i = 0; i < kStreams; ++i) {
    if (i % 4 == 0) continue;
    const HttpReply reply = streams[i]->receive();
    EXPECT_EQ(reply.status, 200) << i;
    const Events events(reply.body);
    EXPECT_TRUE(events.done) << i;
    EXPECT_EQ(events.text(), text) << i;
  }
  served.wait_for("quire:kv_sequences", 0);
}

TEST_F(ServerFaults, ASlowReadersAnswerEndsAndNobodyElses) {
  serve::ServerOptions options;
  options.limits.pending_bytes = 256;
  options.limits.send_buffer_bytes = 4096;
  Served& served = serve(options);
  HttpClient slow(served.port(), 4096);
  slow.send_bytes(ask(8000, true));
  EXPECT_EQ(slow.receive_head().status, 200);
  served.wait_for("quire:slow_readers_total", 1);
  served.wait_for("quire:kv_sequences", 0);
  HttpClient other(served.port());
  other.send_bytes(ask(9));
  EXPECT_EQ(other.receive().json()["usage"]["completion_tokens"], 9);
  // Who reads on gets what was kept, and why there is no more.
  std::string body;
  while (body.find("[DONE]") == std::string::npos) {
    const std::string piece = slow.read_some();
    ASSERT_FALSE(piece.empty()) << body;
    body += piece;
  }
  EXPECT_NE(body.find("\"finish_reason\":\"error\""), std::string::npos);
  EXPECT_NE(body.find("too slow"), std::string::npos);
}

TEST_F(ServerFaults, StalledIsNotReadyAndYetAlive) {
  std::atomic<double> now{0};
  serve::ServerOptions options;
  options.clock = [&now] { return now.load(); };
  Served& served = serve(options);
  gate_.set(false);
  HttpClient asks(served.port()), probe(served.port());
  asks.send_bytes(ask(3));
  gate_.wait_until_held();
  EXPECT_EQ(probe.get("/ready").status, 200);
  now = 1000;
  const HttpReply stalled = probe.get("/ready");
  EXPECT_EQ(stalled.status, 503);
  EXPECT_EQ(stalled.json()["error"]["code"], "stalled");
  EXPECT_EQ(probe.get("/health").status, 200);
  gate_.set(true);
  EXPECT_EQ(asks.receive().status, 200);
  while (probe.get("/ready").status != 200) sched_yield();
}

TEST_F(ServerFaults, GoingDownItFinishesWhatItHasBegun) {
  Served& served = serve();
  gate_.set(false);
  HttpClient streams(served.port()), idle(served.port());
  EXPECT_EQ(idle.get("/health").status, 200);
  streams.send_bytes(ask(40, true));
  wait_for_slots(1);
  served.drain();
  EXPECT_TRUE(idle.ended()) << "idle connections are closed";
  HttpReply ready = HttpClient(served.port()).get("/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(ready.json()["error"]["code"], "draining");
  EXPECT_EQ(ready.field("connection"), "close");
  EXPECT_EQ(HttpClient(served.port()).get("/health").status, 200);
  HttpClient late(served.port());
  late.send_bytes(ask(3));
  EXPECT_EQ(late.receive().status, 503);
  gate_.set(true);
  const Events events(streams.receive().body);
  EXPECT_TRUE(events.done);
  EXPECT_EQ(events.finish(), "length");
  served.wait();
}

TEST_F(ServerFaults, WhenTheTimeIsOverAnswersEndAsErrors) {
  serve::ServerOptions options;
  options.drain_seconds = 0;
  Served& served = serve(options);
  HttpClient client(served.port());
  client.send_bytes(ask(10'000, true));
  EXPECT_EQ(client.receive_head().status, 200);
  served.drain();
  std::string body;
  for (std::string piece = client.read_some(); !piece.empty(); piece = client.read_some()) {
    body += piece;
  }
  EXPECT_NE(body.find("\"finish_reason\":\"error\""), std::string::npos);
  EXPECT_NE(body.find("going down"), std::string::npos);
  EXPECT_NE(body.find("[DONE]"), std::string::npos);
  served.wait();
}

TEST_F(ServerFaults, EveryClosedRouteNeedsTheKey) {
  serve::ServerOptions options;
  options.access.keys = {"a-key-of-letters"};
  Served& served = serve(options);
  HttpClient client(served.port());
  for (const serve::RouteEntry& entry : serve::route_table()) {
    std::string path = entry.path;
    if (path.ends_with('/')) path += "x";
    const HttpReply without = client.ask(entry.method, path);
    EXPECT_EQ(without.status == 401, !entry.open) << path << " " << without.status;
    const HttpReply wrong =
        client.ask(entry.method, path, "", {"Authorization: Bearer a-key-of-lettert"});
    EXPECT_EQ(wrong.status == 401, !entry.open) << path;
    const HttpReply with =
        client.ask(entry.method, path, "", {"Authorization: Bearer a-key-of-letters"});
    EXPECT_NE(with.status, 401) << path;
    EXPECT_NE(with.status, 500) << path << with.body;
  }
  EXPECT_EQ(client.get("/no-such-path").status, 401) << "what there is, is nobody's business";
}

TEST_F(ServerFaults, OtherNamesAndSitesAreNotAnswered) {
  Served& served = serve();
  HttpClient client(served.port());
  const auto with = [&](const std::string& head) {
    client.send_bytes("GET /v1/models HTTP/1.1\r\n" + head + "\r\n");
    return client.receive().status;
  };
  EXPECT_EQ(with("Host: localhost:" + std::to_string(served.port()) + "\r\n"), 200);
  EXPECT_EQ(with("Host: evil.example\r\n"), 403);
  EXPECT_EQ(with(""), 400);
  EXPECT_EQ(with("Host: localhost\r\nOrigin: http://evil.example\r\n"), 403);
}

TEST_F(ServerFaults, AddressesForOthersNeedAKeyOrAWord) {
  serve::ServerOptions options;
  options.host = "0.0.0.0";
  EXPECT_NE(serve::Server::check(options).message().find("--api-key-file"), std::string::npos);
  options.insecure = true;
  EXPECT_TRUE(serve::Server::check(options).ok());
  options.insecure = false;
  options.access.keys = {"a-key-of-letters"};
  EXPECT_TRUE(serve::Server::check(options).ok());
  options.host = "not an address";
  EXPECT_EQ(serve::Server::check(options).message(),
            "host: \"not an address\" is no numeric address");
  EXPECT_TRUE(serve::Server::check({}).ok()) << "this machine's is the default";
}

TEST_F(ServerFaults, TooManyConnectionsAreToldSo) {
  serve::ServerOptions options;
  options.limits.connections = 2;
  Served& served = serve(options);
  HttpClient one(served.port()), two(served.port());
  EXPECT_EQ(one.get("/health").status, 200);
  EXPECT_EQ(two.get("/health").status, 200);
  HttpClient three(served.port());
  EXPECT_EQ(three.receive().status, 503);
  EXPECT_TRUE(three.ended());
  EXPECT_EQ(one.get("/health").status, 200);
}

TEST_F(ServerFaults, SlowHeadersAndIdleConnectionsEnd) {
  serve::ServerOptions options;
  options.limits.header_seconds = 0.02;
  options.limits.body_seconds = 0.02;
  HttpClient slow(serve(options).port()), body(served_->port());
  slow.send_bytes("GET /hea");
  body.send_bytes("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{");
  EXPECT_EQ(slow.receive().status, 408);
  EXPECT_EQ(body.receive().status, 408);
  serve::ServerOptions impatient;
  impatient.limits.idle_seconds = 0.02;
  served_.reset();
  HttpClient idle(serve(impatient).port());
  EXPECT_TRUE(idle.ended()) << "without a word";
}

TEST_F(ServerFaults, WithoutADescriptorItSaysSoAndLivesOn) {
  Served& served = serve();
  HttpClient before(served.port()), during(0);
  EXPECT_EQ(before.get("/health").status, 200);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int lowest = fcntl(0, F_DUPFD, 0);
  close(lowest);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(lowest), .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  during.connect_to(served.port());
  const HttpReply told = during.receive();
  EXPECT_EQ(before.get("/health").status, 200) << "who is there already is answered";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(told.status, 503);
  EXPECT_EQ(HttpClient(served.port()).get("/health").status, 200);
}

}  // namespace
}  // namespace quire
