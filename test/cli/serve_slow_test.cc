// Goal: the program answers OpenAI's requests on a real model, tools and schemas included, holds
//   many idle connections in little memory, and goes down when told.
// Method: the built program on SmolLM2 and Qwen, plain sockets.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/server_program.h"
#include "model/chat.h"

namespace quire {
namespace {

using nlohmann::json;
using test::contains;
using test::Events;
using test::HttpClient;
using test::HttpReply;
using test::ServerProgram;

TEST(ServeProgram, AnswersOnARealModelAndGoesDown) {
  const std::string path = test::real_model(test::kSmolLm);
  QUIRE_NEED(path);
  ServerProgram program(path, {"--budget", "256MiB", "--metrics-alias", "vllm"});
  const std::uint16_t port = program.port();
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
  const std::size_t before = program.rss_bytes();
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(std::make_unique<HttpClient>(port));
    EXPECT_EQ(idle.back()->get("/health").status, 200);
  }
  const std::size_t now = program.rss_bytes(), more = now - std::min(before, now);
  std::printf("1000 idle connections: %zu KiB\n", more >> 10);
  testing::Test::RecordProperty("idle_1000_rss_bytes", std::to_string(more));
  EXPECT_LT(more, std::size_t{64} << 20);
  EXPECT_EQ(test::sample(client.get("/metrics").body, "quire:http_connections"), 1001);

  const test::Ran& ran = program.stop();
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(contains(ran.err, "POST /v1/chat/completions 200")) << ran.err;
  EXPECT_FALSE(contains(ran.err, "France")) << "no text of anybody's in the log";
}

json answer_of(const HttpReply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  return reply.json()["choices"][0];
}

// With a schema, whole and streamed; every real model can.
void check_schema(HttpClient& client) {
  json ask = {{"messages", {{{"role", "user"}, {"content", "Name a city, with its country."}}}},
              {"max_tokens", 150}};
  ask["response_format"] = json::parse(R"({"type": "json_schema", "json_schema": {"name": "city",
      "strict": true, "schema": {"type": "object", "properties": {
        "city": {"type": "string", "maxLength": 20}, "country": {"type": "string", "maxLength": 20},
        "size": {"enum": ["small", "large"]}},
        "required": ["city", "country", "size"], "additionalProperties": false}}})");
  const json choice = answer_of(client.post("/v1/chat/completions", ask));
  EXPECT_EQ(choice["finish_reason"], "stop") << choice;
  const std::string text = choice["message"]["content"];
  const json city = json::parse(text, nullptr, false);
  EXPECT_TRUE(city.is_object() && city.size() == 3 && city["city"].is_string()) << text;
  EXPECT_TRUE(city["size"] == "small" || city["size"] == "large") << text;
  ask["stream"] = true;
  EXPECT_EQ(Events(client.post("/v1/chat/completions", ask).body).text(), text);
}

json weather() {
  return json::parse(R"({"max_tokens": 200, "parallel_tool_calls": false,
      "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
      "tools": [{"type": "function", "function": {"name": "get_weather", "strict": true,
        "description": "The weather of a city, now", "parameters": {"type": "object",
          "properties": {"city": {"type": "string", "maxLength": 30}},
          "required": ["city"], "additionalProperties": false}}}]})");
}

TEST(ServeProgram, ToolsAndSchemasOnRealModels) {
  const std::string path = test::real_model(test::kQwenCoder);
  QUIRE_NEED(path);
  if (!model::has_full_templates()) GTEST_SKIP() << "built without llama-chat";
  const json ask = weather();
  ServerProgram program(path, {"--budget", "256MiB"});
  HttpClient client(program.port());
  for (const json& choose :
       {json("required"), json({{"type", "function"}, {"function", {{"name", "get_weather"}}}})}) {
    json one = ask;
    one["tool_choice"] = choose;
    const json choice = answer_of(client.post("/v1/chat/completions", one));
    ASSERT_EQ(choice["finish_reason"], "tool_calls") << choice;
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u) << choice;
    json call = choice["message"]["tool_calls"][0];
    EXPECT_EQ(call["function"]["name"], "get_weather");
    const std::string text = call["function"]["arguments"];
    const json arguments = json::parse(text, nullptr, false);
    EXPECT_TRUE(contains(arguments.value("city", ""), "Oslo")) << text;
    one["stream"] = true;
    const Events events(client.post("/v1/chat/completions", one).body);
    EXPECT_EQ(events.finish(), "tool_calls");
    ASSERT_EQ(events.calls().size(), 1u);
    EXPECT_EQ(events.calls()[0]["function"], call["function"]);

    one = ask;
    one["messages"].push_back(choice["message"]);
    one["messages"].push_back(
        {{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "rain, 4 degrees"}});
    one["tool_choice"] = "none";
    const json after = answer_of(client.post("/v1/chat/completions", one));
    EXPECT_TRUE(contains(after["message"]["content"], "rain")) << after;
  }
  const json automatic = answer_of(client.post("/v1/chat/completions", ask));
  const bool called = automatic["message"].contains("tool_calls");
  EXPECT_EQ(automatic["finish_reason"], called ? "tool_calls" : "stop") << automatic;
  check_schema(client);
  EXPECT_EQ(program.stop().status, 0);
}

TEST(ServeProgram, ATemplateWithoutToolsRefusesThemAndTakesSchemas) {
  const std::string path = test::real_model(test::kSmolLm);
  QUIRE_NEED(path);
  if (!model::has_full_templates()) GTEST_SKIP() << "built without llama-chat";
  ServerProgram program(path, {"--budget", "64MiB"});
  HttpClient client(program.port());
  const HttpReply refused = client.post("/v1/chat/completions", weather());
  EXPECT_EQ(refused.status, 400) << "its template shows no tools";
  EXPECT_EQ(refused.json()["error"]["param"], "tools") << refused.body;
  check_schema(client);
  EXPECT_EQ(program.stop().status, 0);
}

}  // namespace
}  // namespace quire
