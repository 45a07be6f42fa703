// Goal: the program answers OpenAI's requests on a real model, holds many idle connections in
// little
//   memory, and goes down when told.
// Method: the built program on SmolLM2, plain sockets.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/program.h"
#include "model/real_model.h"
#include "serve/http_client.h"

namespace quire {
namespace {

using nlohmann::json;
using test::contains;
using test::Events;
using test::HttpClient;
using test::Program;

// The port of its first line on stderr.
std::uint16_t port_of(const Program& program) {
  const std::string before = "at http://127.0.0.1:";
  while (!program.has_ended()) {
    const std::string said = test::read_file(test::folder().file("stderr"));
    const std::size_t at = said.find(before);
    if (at != std::string::npos && said.find('\n', at) != std::string::npos) {
      return static_cast<std::uint16_t>(std::stoul(said.substr(at + before.size())));
    }
    sched_yield();
  }
  ADD_FAILURE() << test::read_file(test::folder().file("stderr"));
  return 0;
}

std::size_t rss_bytes(const Program& program) {
  const std::string status = program.proc("status");
  return std::stoul(status.substr(status.find("VmRSS:") + 6)) * 1024;
}

TEST(ServeProgram, AnswersOnARealModelAndGoesDown) {
  const std::string path = test::real_model(test::kSmolLm);
  QUIRE_NEED(path);
  Program program({"serve", "-m", path, "--port", "0", "--budget", "256MiB", "--threads",
                   std::to_string(test::test_threads()), "--deterministic", "--temp", "0",
                   "--metrics-alias", "vllm"});
  const std::uint16_t port = port_of(program);
  ASSERT_NE(port, 0);
  HttpClient client(port);
  const json ask = {{"messages",
                     {{{"role", "system"}, {"content", "You are a helpful assistant."}},
                      {{"role", "user"}, {"content", "What is the capital of France?"}}}},
                    {"max_tokens", 24}};
  const json alone = client.post("/v1/chat/completions", ask).json();
  const std::string text = alone["choices"][0]["message"]["content"];
  EXPECT_TRUE(contains(text, "Paris")) << text;

  // Eight at once get what each gets alone.
  std::vector<std::thread> threads;
  std::vector<std::string> texts(8);
  for (std::string& one : texts) {
    threads.emplace_back([&one, &ask, port] {
      json streamed = ask;
      streamed["stream"] = true;
      one = Events(HttpClient(port).post("/v1/chat/completions", streamed).body).text();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& one : texts) EXPECT_EQ(one, text);
  EXPECT_EQ(test::sample(client.get("/metrics").body,
                         "vllm:request_success_total{finished_reason=\"length\"}") +
                test::sample(client.get("/metrics").body,
                             "vllm:request_success_total{finished_reason=\"stop\"}"),
            9);

  json object = ask;
  object["response_format"] = {{"type", "json_object"}};
  object["messages"][0]["content"] = "Answer with a JSON object that has one field, \"city\".";
  object["max_tokens"] = 100;
  const json formed = client.post("/v1/chat/completions", object).json()["choices"][0];
  if (formed["finish_reason"] == "stop") {
    EXPECT_TRUE(
        json::parse(formed["message"]["content"].get<std::string>(), nullptr, false).is_object())
        << formed.dump();
  }

  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::size_t before = rss_bytes(program);
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(std::make_unique<HttpClient>(port));
    EXPECT_EQ(idle.back()->get("/health").status, 200);
  }
  const std::size_t more = rss_bytes(program) - std::min(before, rss_bytes(program));
  testing::Test::RecordProperty("idle_1000_rss_bytes", std::to_string(more));
  EXPECT_LT(more, std::size_t{64} << 20);
  EXPECT_EQ(test::sample(client.get("/metrics").body, "quire:http_connections"), 1001);

  program.interrupt();
  const test::Ran& ran = program.finish();
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(contains(ran.err, "POST /v1/chat/completions 200")) << ran.err;
  EXPECT_FALSE(contains(ran.err, "France")) << "no text of anybody's in the log";
}

}  // namespace
}  // namespace quire
