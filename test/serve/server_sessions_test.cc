// Goal: a conversation that was saved is found again after a restart, with the answer it would have
//   had, and by nobody else; what cannot be saved or restored is refused by its reason, and changes
//   nothing.
// Method: a small random model, in the deterministic mode, behind one server after another with
//   fresh caches over one directory; files changed, copied and cut on disk.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "engine/sha256.h"
#include "serve/served.h"
#include "serve/tiny_server_model.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using test::HttpClient;
using test::HttpReply;
using test::Served;

class ServerSessions : public test::TinyModelTest {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("server_sessions_" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override {
    served_.reset();
    fs::remove_all(folder_);
  }

  // With a cache of its own, in which nothing is.
  Served& serve(serve::ServerOptions options = {}, std::string identity = "tiny",
                std::size_t budget = std::size_t{4} << 20) {
    served_.reset();
    cache_ = test::attached_cache(*model_, budget,
                                  {.hash = engine::sha256, .identity = std::move(identity)});
    options.defaults.sampler.temperature = 0;
    options.sessions.directory = folder_.string();
    served_ = std::make_unique<Served>(*model_, *cache_, std::move(options));
    return *served_;
  }
  // `tokens` of a text that are asked for `more`.
  static json ask(int tokens = 80, const json& more = json::object()) {
    json body = {{"prompt", json::array()}, {"max_tokens", 6}, {"ignore_eos", true}};
    for (int i = 0; i < tokens; ++i) body["prompt"].push_back(3 + i * 7 % 90);
    body.update(more);
    return body;
  }
  static int cached(const json& answer) {
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"];
  }
  static std::string code(const HttpReply& reply) { return reply.json()["error"]["code"]; }
  static std::string message(const HttpReply& reply) { return reply.json()["error"]["message"]; }
  fs::path only_file() const { return fs::directory_iterator(folder_)->path(); }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  fs::path folder_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Served> served_;
};

TEST_F(ServerSessions, SavedRestartedRestored) {
  json cold;
  {
    HttpClient client(serve().port());
    EXPECT_EQ(client.get("/props").json()["kv"]["sessions"], true);
    cold = client.post("/v1/completions", ask()).json();
    const HttpReply saved = client.post("/sessions/talk/save", ask());
    ASSERT_EQ(saved.status, 200) << saved.body;
    EXPECT_EQ(saved.json()["name"], "talk");
    EXPECT_EQ(saved.json()["saved_tokens"], 80);
    EXPECT_EQ(saved.json()["bytes"], fs::file_size(only_file()));
    EXPECT_GE(saved.json()["timings"]["save_ms"], 0);
  }
  HttpClient client(serve().port());
  const json listed = client.get("/sessions").json();
  ASSERT_EQ(listed["data"].size(), 1u);
  EXPECT_EQ(listed["data"][0]["name"], "talk");
  EXPECT_EQ(listed["data"][0]["bytes"], fs::file_size(only_file()));
  EXPECT_EQ(cached(client.post("/v1/completions", ask(80, {{"cache_salt", "new"}})).json()), 0);
  const HttpReply restored = client.ask("POST", "/sessions/talk/restore");
  ASSERT_EQ(restored.status, 200) << restored.body;
  EXPECT_EQ(restored.json()["restored_tokens"], 80);
  // All tokens but the last, which is computed; and what is answered is what was answered.
  const json warm = client.post("/v1/completions", ask()).json();
  EXPECT_EQ(cached(warm), 79);
  EXPECT_EQ(warm["choices"][0]["text"], cold["choices"][0]["text"]);
  EXPECT_EQ(client.ask("POST", "/sessions/talk/restore").status, 200) << "it is there already";

  EXPECT_EQ(client.ask("DELETE", "/sessions/talk").json()["erased"], true);
  const HttpReply gone = client.ask("POST", "/sessions/talk/restore");
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(code(gone), "session_not_found");
  EXPECT_EQ(client.ask("DELETE", "/sessions/talk").status, 404);
  EXPECT_TRUE(client.get("/sessions").json()["data"].empty());
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ServerSessions, AChatGoesOnBehindItsAnswer) {
  json body = {{"messages", {{{"role", "user"}, {"content", "one two three four five six"}}}},
               {"max_tokens", 40},
               {"ignore_eos", true}};
  int saved = 0;
  {
    HttpClient client(serve().port());
    const json answer = client.post("/v1/chat/completions", body).json();
    body["messages"].push_back(answer["choices"][0]["message"]);
    body["messages"].push_back({{"role", "user"}, {"content", "seven?"}});
    const json reply = client.post("/sessions/chat/save", body).json();
    saved = reply["saved_tokens"];
    EXPECT_GE(saved, 16);
    EXPECT_EQ(saved % 16, 0) << "whole units";
  }
  HttpClient client(serve().port());
  EXPECT_EQ(client.ask("POST", "/sessions/chat/restore").json()["restored_tokens"], saved);
  EXPECT_EQ(cached(client.post("/v1/chat/completions", body).json()), saved);
}

TEST_F(ServerSessions, OtherKeysAndSaltsSeeNothing) {
  serve::ServerOptions options;
  options.access.keys = {"first-tenants-key", "other-tenants-key"};
  HttpClient client(serve(options).port());
  const std::vector<std::string> first{"Authorization: Bearer first-tenants-key"},
      other{"Authorization: Bearer other-tenants-key"};
  client.post("/v1/completions", ask(80, {{"cache_salt", "mine"}}), first);
  ASSERT_EQ(client.post("/sessions/a/save", ask(), first).status, 404) << "another salt";
  ASSERT_EQ(client.post("/sessions/a/save", ask(80, {{"cache_salt", "mine"}}), first).status, 200);
  EXPECT_EQ(client.post("/sessions/a/save", ask(80, {{"cache_salt", "mine"}}), other).status, 404)
      << "nothing of theirs is cached";
  const json salt = {{"cache_salt", "mine"}};
  EXPECT_EQ(client.post("/sessions/a/restore", salt, other).status, 404);
  EXPECT_EQ(client.ask("DELETE", "/sessions/a", "", other).status, 404);
  EXPECT_TRUE(client.ask("GET", "/sessions", "", other).json()["data"].empty());
  const HttpReply unsalted = client.ask("POST", "/sessions/a/restore", "", first);
  EXPECT_EQ(unsalted.status, 409);
  EXPECT_EQ(message(unsalted), "session: salt at offset 64: saved with another key or cache_salt");

  // Nor where the file is given another name on disk.
  const std::string mine = only_file().filename();
  client.post("/v1/completions", ask(), other);
  ASSERT_EQ(client.post("/sessions/b/save", ask(), other).status, 200);
  std::string theirs;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().filename() != mine) theirs = entry.path();
  }
  fs::copy_file(folder_ / mine, theirs, fs::copy_options::overwrite_existing);
  EXPECT_EQ(client.post("/sessions/b/restore", salt, other).status, 409);
  EXPECT_EQ(client.post("/sessions/a/restore", salt, first).status, 200);
}

TEST_F(ServerSessions, WhatIsDamagedOrOfAnotherModelChangesNothing) {
  {
    HttpClient client(serve().port());
    client.post("/v1/completions", ask());
    ASSERT_EQ(client.post("/sessions/a/save", ask()).status, 200);
  }
  const fs::path path = only_file();
  const std::string good = read(path);
  Served& served = serve();
  HttpClient client(served.port());
  const auto refused = [&](const std::string& bytes, int status) {
    write(path, bytes);
    const HttpReply reply = client.ask("POST", "/sessions/a/restore");
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(served.metric("quire:prefix_cache_units"), 0);
    return message(reply);
  };
  std::string torn = good.substr(0, good.size() - 1), flipped = good, head = good;
  flipped[good.size() - 40] ^= 1;
  head[130] ^= 1;
  EXPECT_TRUE(refused(torn, 500).starts_with("session: size: "));
  EXPECT_TRUE(refused("", 500).starts_with("session: size: 0 bytes"));
  EXPECT_TRUE(refused(flipped, 500).ends_with("unit 4 is damaged")) << "the last";
  EXPECT_TRUE(refused(head, 500).ends_with("head or tokens are damaged"));
  EXPECT_EQ(cached(client.post("/v1/completions", ask(80, {{"cache_prompt", false}})).json()), 0);
  write(path, good);
  EXPECT_EQ(client.ask("POST", "/sessions/a/restore").status, 200);

  HttpClient stranger(serve({}, "another model").port());
  const HttpReply reply = stranger.ask("POST", "/sessions/a/restore");
  EXPECT_EQ(reply.status, 409);
  EXPECT_EQ(code(reply), "session_mismatch");
  EXPECT_TRUE(message(reply).starts_with("session: identity at offset 32: of another model"));
}

TEST_F(ServerSessions, WhatIsNotCachedCannotBeSavedAndWhatDoesNotFitNotRestored) {
  {
    HttpClient client(serve().port());
    HttpReply reply = client.post("/sessions/a/save", ask());
    EXPECT_EQ(reply.status, 404);
    EXPECT_EQ(message(reply), "session: nothing of this text is cached (cold); answer it first");
    client.post("/v1/completions", ask(400));
    reply = client.post("/sessions/a/save", ask(400));
    ASSERT_EQ(reply.json()["saved_tokens"], 400) << reply.body;
  }
  HttpClient client(serve({}, "tiny", std::size_t{128} << 10).port());
  const HttpReply reply = client.ask("POST", "/sessions/a/restore");
  EXPECT_EQ(reply.status, 409) << reply.body;
  EXPECT_NE(message(reply).find("over the budget of 131072"), std::string::npos);
  EXPECT_EQ(client.post("/v1/completions", ask(20)).status, 200);
}

TEST_F(ServerSessions, AFullDiskLeavesTheOldSessionAndTheServer) {
  HttpClient client(serve().port());
  client.post("/v1/completions", ask());
  ASSERT_EQ(client.post("/sessions/a/save", ask()).status, 200);
  const std::string before = read(only_file());
  client.post("/v1/completions", ask(200));
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  rlimit small = limit;
  small.rlim_cur = before.size();
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const HttpReply full = client.post("/sessions/a/save", ask(200));
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(full.status, 507);
  EXPECT_EQ(message(full), "session: cannot write: File too large");
  EXPECT_EQ(read(only_file()), before);
  EXPECT_EQ(client.post("/sessions/a/save", ask(200)).json()["saved_tokens"], 192);

  serve::ServerOptions options;
  options.sessions.most_bytes = 1000;
  HttpClient limited(serve(options).port());
  limited.post("/v1/completions", ask());
  const HttpReply over = limited.post("/sessions/b/save", ask());
  EXPECT_EQ(over.status, 507);
  EXPECT_NE(message(over).find("--session-space"), std::string::npos);
}

TEST_F(ServerSessions, NamesPathsAndBodiesThatWillNotDo) {
  HttpClient client(serve().port());
  client.post("/v1/completions", ask());
  for (const std::string name : {"..", "%2e%2e%2fx", "a%2fb", ".a", "a/b", ""}) {
    const HttpReply reply = client.post("/sessions/" + name + "/save", ask());
    EXPECT_EQ(reply.status, 400) << name << reply.body;
    EXPECT_EQ(reply.json()["error"]["param"], "name") << name;
  }
  EXPECT_EQ(client.post("/sessions/a", ask()).status, 404);
  EXPECT_EQ(client.post("/sessions/a/copy", ask()).status, 404);
  EXPECT_EQ(client.get("/sessions/a").status, 405);
  EXPECT_EQ(client.get("/sessions/a").field("allow"), "POST, DELETE");
  EXPECT_EQ(client.ask("PUT", "/sessions").status, 405);
  HttpReply reply = client.post("/sessions/a/save", {{"prompt", "x"}, {"tempo", 1}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["param"], "tempo");
  EXPECT_EQ(client.ask("POST", "/sessions/a/save").status, 400);
  EXPECT_EQ(client.ask("POST", "/sessions/a/save", "[1]").status, 400);
  reply = client.post("/sessions/a/restore", {{"prompt", "x"}});
  EXPECT_EQ(reply.json()["error"]["param"], "prompt");
  EXPECT_EQ(client.post("/sessions/a/restore", {{"cache_salt", 1}}).status, 400);
  EXPECT_EQ(client.ask("POST", "/sessions/a/restore", "{").status, 400);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ServerSessions, WithoutADirectoryTheyAreOff) {
  cache_ = test::attached_cache(*model_, std::size_t{2} << 20,
                                {.hash = engine::sha256, .identity = "tiny"});
  served_ = std::make_unique<Served>(*model_, *cache_, serve::ServerOptions{});
  HttpClient client(served_->port());
  EXPECT_EQ(client.get("/props").json()["kv"]["sessions"], false);
  for (const std::string method : {"POST", "DELETE"}) {
    const HttpReply reply = client.ask(method, "/sessions/a/save");
    EXPECT_EQ(reply.status, 501);
    EXPECT_EQ(message(reply), "sessions are off; start the server with --session-dir DIR");
  }
  EXPECT_EQ(client.get("/sessions").status, 501);
  serve::ServerOptions options;
  options.sessions.directory = folder_.string();
  options.engine.prefix_cache = false;
  const auto refused = serve::Server::open(*model_, *cache_, std::move(options));
  EXPECT_EQ(refused.status().message(),
            "session_dir: sessions are kept by the prefix cache, which is off");
}

// Saves and restores beside answers change none of them.
TEST_F(ServerSessions, ABystanderIsAnsweredAsAlone) {
  Served& served = serve();
  const json talk = {{"prompt", "a bystander's text"}, {"max_tokens", 60}, {"ignore_eos", true}};
  const json alone = HttpClient(served.port()).post("/v1/completions", talk).json();
  HttpClient(served.port()).post("/v1/completions", ask(300));
  std::vector<std::thread> threads;
  std::vector<int> statuses(4);
  for (int& status : statuses) {
    threads.emplace_back(
        [&status, port = served.port(), name = "s" + std::to_string(&status - statuses.data())] {
          HttpClient client(port);
          status = client.post("/sessions/" + name + "/save", ask(300)).status;
          const int restored = client.ask("POST", "/sessions/" + name + "/restore").status;
          if (restored != 200) status = restored;
        });
  }
  const json beside = HttpClient(served.port()).post("/v1/completions", talk).json();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(statuses, std::vector<int>(4, 200));
  EXPECT_EQ(beside["choices"][0]["text"], alone["choices"][0]["text"]);
  EXPECT_EQ(HttpClient(served.port()).get("/sessions").json()["data"].size(), 4u);
}

}  // namespace
}  // namespace quire
