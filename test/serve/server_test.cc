// Goal: over a socket, OpenAI's requests get the answers that the engine gives, whole or streamed,
//   whatever strangers send beside them.
// Method: a small random model, in the deterministic mode, behind a server in this process; plain
//   sockets; answers compared with each other.

#include <gtest/gtest.h>

#include "serve/served.h"
#include "serve/tiny_server_model.h"

namespace quire {
namespace {

using nlohmann::json;
using test::Events;
using test::HttpClient;
using test::HttpReply;
using test::Served;

class ServerTest : public test::TinyModelTest {
 protected:
  void SetUp() override {
    cache_ = test::attached_cache(*model_, std::size_t{2} << 20);
    ASSERT_NE(cache_, nullptr);
  }
  std::unique_ptr<Served> serve(serve::ServerOptions options = {}) {
    options.defaults.sampler.temperature = 0;
    return std::make_unique<Served>(*model_, *cache_, std::move(options));
  }
  static json completion(const std::string& prompt, int tokens) {
    return {{"prompt", prompt}, {"max_tokens", tokens}, {"ignore_eos", true}};
  }
  static json chat(const std::string& text, int tokens) {
    return {{"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", tokens}};
  }

  std::unique_ptr<Cache> cache_;
};

TEST_F(ServerTest, AChatInOpenAisShape) {
  const auto served = serve();
  HttpClient client(served->port());
  json body = chat("hello", 9);
  body["ignore_eos"] = true;
  const HttpReply reply = client.post("/v1/chat/completions", body, {"x-request-id: mine"});
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.field("x-request-id"), "mine");
  EXPECT_EQ(reply.field("content-type"), "application/json");
  const json answer = reply.json();
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["model"], "tiny");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 9);
  EXPECT_EQ(answer["usage"]["total_tokens"], answer["usage"]["prompt_tokens"].get<int>() + 9);
  EXPECT_EQ(answer["kv"]["mode"], "exact");
  EXPECT_EQ(answer["kv"]["lossy"], false);
  const json rendered = client.post("/apply-template", {{"messages", body["messages"]}}).json();
  const json tokens = client.post("/tokenize", {{"prompt", rendered["prompt"]}}).json();
  EXPECT_EQ(answer["usage"]["prompt_tokens"], tokens["count"]) << "one begin of text, template in";
}

TEST_F(ServerTest, StreamedIsTheSameTextInPieces) {
  const auto served = serve();
  HttpClient client(served->port());
  for (const std::string path : {"/v1/completions", "/v1/chat/completions"}) {
    json body = path == "/v1/completions" ? completion("the cat", 60) : chat("the cat", 60);
    body["ignore_eos"] = true;
    const json whole = client.post(path, body).json();
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    const HttpReply reply = client.post(path, body);
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_TRUE(reply.field("content-type").starts_with("text/event-stream"));
    const Events events(reply.body);
    EXPECT_TRUE(events.done);
    const json& choice = whole["choices"][0];
    const json said = choice.contains("text") ? choice["text"] : choice["message"]["content"];
    EXPECT_EQ(events.text(), said) << path;
    EXPECT_GT(events.chunks.size(), 3u);
    EXPECT_EQ(events.finish(), "length");
    EXPECT_EQ(events.chunks.back()["usage"], whole["usage"]);
  }
}

TEST_F(ServerTest, OneConnectionHasManyRequestsAlsoAtOnce) {
  const auto served = serve();
  HttpClient client(served->port());
  const std::string asks =
      HttpClient::request("GET", "/health") +
      HttpClient::request("POST", "/v1/completions", completion("a", 5).dump()) +
      HttpClient::request("POST", "/tokenize", R"({"content": "ab"})") +
      HttpClient::request("GET", "/v1/models");
  client.send_bytes(asks + asks);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(client.receive().json()["status"], "ok");
    EXPECT_EQ(client.receive().json()["usage"]["completion_tokens"], 5);
    EXPECT_GT(client.receive().json()["count"], 0);
    EXPECT_EQ(client.receive().json()["data"][0]["id"], "tiny");
  }
  EXPECT_EQ(client.get("/health").status, 200) << "and still";
  HttpClient closing(served->port());
  EXPECT_EQ(closing.ask("GET", "/health", "", {"Connection: close"}).field("connection"), "close");
  EXPECT_TRUE(closing.ended());
}

TEST_F(ServerTest, LengthsAreExact) {
  const auto served = serve();
  HttpClient client(served->port());
  json body = completion("count", 1);
  for (const int tokens : {1, 2, 17, 100}) {
    body["max_tokens"] = tokens;
    body["min_tokens"] = tokens;
    EXPECT_EQ(client.post("/v1/completions", body).json()["usage"]["completion_tokens"], tokens);
  }
  body = {{"prompt", "count"}, {"min_tokens", 16}};
  EXPECT_EQ(client.post("/v1/completions", body).json()["usage"]["completion_tokens"], 16)
      << "a text's answer has 16 tokens where nobody says";
  body = chat("count", 1);
  body.erase("max_tokens");
  body["ignore_eos"] = true;
  const json usage = client.post("/v1/chat/completions", body).json()["usage"];
  EXPECT_EQ(usage["total_tokens"], 512) << "a chat's ends with the context";
}

TEST_F(ServerTest, SeedsBiasesAndSeveralAnswers) {
  const auto served = serve();
  HttpClient client(served->port());
  json body = completion("dice", 12);
  body["temperature"] = 1.5;
  body["seed"] = 7;
  body["n"] = 3;
  const json first = client.post("/v1/completions", body).json();
  ASSERT_EQ(first["choices"].size(), 3u) << first.dump();
  EXPECT_NE(first["choices"][0]["text"], first["choices"][1]["text"]);
  EXPECT_EQ(first["usage"]["completion_tokens"], 36);
  body["stream"] = true;
  const Events again(client.post("/v1/completions", body).body);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(again.text(i), first["choices"][i]["text"]) << i;
    EXPECT_EQ(again.finish(i), "length");
  }

  const json x = client.post("/tokenize", {{"content", "x"}}).json();
  const std::string token = std::to_string(x["tokens"].back().get<int>());
  body = completion("y", 6);
  body["logit_bias"] = {{token, 100}};
  EXPECT_EQ(client.post("/v1/completions", body).json()["choices"][0]["text"], "xxxxxx");
  // A bias of 100 less what each repetition costs: another token's turn comes.
  body["frequency_penalty"] = 2;
  body["max_tokens"] = 120;
  const std::string text = client.post("/v1/completions", body).json()["choices"][0]["text"];
  EXPECT_NE(text, std::string(120, 'x'));
}

TEST_F(ServerTest, LogprobsOfBothEndpoints) {
  const auto served = serve();
  HttpClient client(served->port());
  json body = chat("hello", 5);
  body["logprobs"] = true;
  body["top_logprobs"] = 3;
  body["ignore_eos"] = true;
  const json whole = client.post("/v1/chat/completions", body).json();
  const json content = whole["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 5u) << whole.dump();
  for (const json& token : content) {
    EXPECT_LE(token["logprob"], 0);
    ASSERT_EQ(token["top_logprobs"].size(), 3u);
    EXPECT_EQ(token["top_logprobs"][0]["logprob"], token["logprob"]) << "temperature 0";
    EXPECT_GE(token["top_logprobs"][0]["logprob"], token["top_logprobs"][1]["logprob"]);
  }
  body["stream"] = true;
  json streamed = json::array();
  const Events events(client.post("/v1/chat/completions", body).body);
  for (const json& chunk : events.chunks) {
    const json& logprobs = chunk["choices"][0]["logprobs"];
    if (logprobs.is_null()) continue;
    for (const json& token : logprobs["content"]) streamed.push_back(token);
  }
  EXPECT_EQ(streamed, content);
  body = completion("hello", 5);
  body["logprobs"] = 2;
  const json text = client.post("/v1/completions", body).json()["choices"][0]["logprobs"];
  EXPECT_EQ(text["tokens"].size(), 5u);
  EXPECT_GE(text["top_logprobs"][0].size(), 1u) << "two, but for tokens of the same letters";
  EXPECT_EQ(text["text_offset"][0], 0);
}

TEST_F(ServerTest, StopTextsAndGrammars) {
  const auto served = serve();
  HttpClient client(served->port());
  const std::string text =
      client.post("/v1/completions", completion("once", 60)).json()["choices"][0]["text"];
  std::size_t at = 8;
  while (at + 2 < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  std::size_t end = at + 2;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  const std::string stop = text.substr(at, end - at);
  json body = completion("once", 60);
  body["stop"] = stop;
  const json stopped = client.post("/v1/completions", body).json()["choices"][0];
  EXPECT_EQ(stopped["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(stopped["finish_reason"], "stop");

  body = {{"prompt", "once"}, {"max_tokens", 40}, {"grammar", "root ::= (\"ab\" | \"ba\"){3}"}};
  const json formed = client.post("/v1/completions", body).json()["choices"][0];
  const std::string letters = formed["text"];
  EXPECT_EQ(letters.size(), 6u) << letters;
  EXPECT_EQ(letters.find_first_not_of("ab"), std::string::npos);
  EXPECT_EQ(formed["finish_reason"], "stop");
  json object = chat("json", 50);
  object["response_format"] = {{"type", "json_object"}};
  const json made = client.post("/v1/chat/completions", object).json();
  EXPECT_TRUE(made["choices"][0]["message"]["content"].get<std::string>().starts_with("{"));
  body["grammar"] = "root ::= missing";
  const HttpReply refused = client.post("/v1/completions", body);
  EXPECT_EQ(refused.status, 400) << refused.body;
  EXPECT_EQ(refused.json()["error"]["param"], "grammar");
}

TEST_F(ServerTest, TheCachesNumbersAndWishes) {
  const auto served = serve();
  HttpClient client(served->port());
  json body = completion(std::string(300, 'q'), 20);
  body["kv"] = {{"policy", "sink-recency:recent=16"}, {"keep", "64tok"}};
  const json kv = client.post("/v1/completions", body).json()["kv"];
  EXPECT_EQ(kv["mode"], "lossy");
  EXPECT_EQ(kv["lossy"], true);
  EXPECT_GT(kv["entries_dropped"], 0);
  EXPECT_LE(kv["tokens_kept_mean"], 64 + 16);
  EXPECT_EQ(served->metric("quire:lossy_responses_total{policy=\"sink-recency\"}"), 1);
  body["kv"] = {{"quota", 3}};
  const json error = client.post("/v1/completions", body).json()["error"];
  EXPECT_EQ(error["param"], "kv.quota");
}

TEST_F(ServerTest, WhatDoesNotFitSaysByHowMuch) {
  const auto served = serve();
  HttpClient client(served->port());
  const HttpReply reply = client.post("/v1/completions", completion(std::string(600, 'q'), 1));
  EXPECT_EQ(reply.status, 400);
  const json error = reply.json()["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_GE(error["n_prompt_tokens"], 512);
  EXPECT_EQ(error["n_ctx"], 512);
  EXPECT_EQ(error["param"], "prompt");

  // Of a text that the context cannot hold whatever its tokens are, none are made.
  const std::string endless(std::size_t{5} << 20, 'q');
  for (const HttpReply& refused : {client.post("/v1/completions", completion(endless, 1)),
                                   client.post("/v1/chat/completions", chat(endless, 1))}) {
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(refused.json()["error"]["code"], "context_length_exceeded") << refused.body;
    EXPECT_GT(refused.json()["error"]["n_prompt_tokens"], 512);
  }
  const HttpReply uncounted = client.post("/tokenize", {{"content", endless}});
  EXPECT_EQ(uncounted.status, 400);
  EXPECT_EQ(uncounted.json()["error"]["param"], "content") << uncounted.body;

  auto small = Cache::open(
      {.layers = model_->info().attention, .budget_bytes = std::size_t{384} << 10, .max_rows = 64});
  ASSERT_TRUE(small.ok());
  ASSERT_TRUE(model_->attach(**small).ok());
  serve::ServerOptions options;
  Served tight(*model_, **small, options);
  HttpClient other(tight.port());
  const HttpReply over = other.post("/v1/completions", completion(std::string(400, 'q'), 50));
  EXPECT_EQ(over.status, 400) << over.body;
  EXPECT_NE(over.json()["error"]["message"].get<std::string>().find("a budget of"),
            std::string::npos);
}

TEST_F(ServerTest, TextsToTokensAndBack) {
  const auto served = serve();
  HttpClient client(served->port());
  const std::string text = "the \xE2\x82\xAC cat";
  const json tokens = client.post("/tokenize", {{"content", text}, {"with_pieces", true}}).json();
  ASSERT_GT(tokens["count"], 3);
  EXPECT_EQ(tokens["max_model_len"], 512);
  json numbers = json::array();
  for (const json& token : tokens["tokens"]) numbers.push_back(token["id"]);
  const std::string back = client.post("/detokenize", {{"tokens", numbers}}).json()["content"];
  EXPECT_NE(back.find(text), std::string::npos) << back;
  const auto refused = [&](const std::string& path, const json& body) {
    const HttpReply reply = client.post(path, body);
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.json()["error"]["param"];
  };
  EXPECT_EQ(refused("/detokenize", {{"tokens", {1, 99999}}}), "tokens[1]");
  EXPECT_EQ(refused("/detokenize", {{"tokens", 3}}), "tokens");
  EXPECT_EQ(refused("/tokenize", json::object()), "content");
  EXPECT_EQ(refused("/tokenize", {{"content", 3}}), "content");
  EXPECT_EQ(refused("/tokenize", {{"content", "x"}, {"wish", 3}}), "wish");
  EXPECT_EQ(refused("/apply-template", {{"messages", 3}}), "messages");
  EXPECT_EQ(client.get("/health").status, 200) << "the connection lives on";
}

TEST_F(ServerTest, WhatItSaysAboutItself) {
  const auto served = serve();
  HttpClient client(served->port());
  EXPECT_EQ(client.get("/version").json()["version"], "test");
  EXPECT_EQ(client.get("/ready").status, 200);
  EXPECT_EQ(client.get("/slots").json(), json::array());
  EXPECT_EQ(client.get("/v1/models/tiny").json()["id"], "tiny");
  EXPECT_EQ(client.get("/v1/models/other").status, 404);
  const json props = client.get("/props").json();
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 512);
  EXPECT_EQ(props["kv"]["budget_bytes"], 2 << 20);
  const HttpReply head = client.ask("HEAD", "/health");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(client.get("/health").status, 200) << "HEAD has no body";
  const HttpReply metrics = client.get("/metrics");
  EXPECT_TRUE(metrics.field("content-type").starts_with("text/plain; version=0.0.4"));
  EXPECT_EQ(test::sample(metrics.body, "quire:num_requests_running"), 0);
}

TEST_F(ServerTest, StrangeRequestsAreRefusedAndNobodyElseNotices) {
  const auto served = serve();
  const json ask = completion("bystander", 400);
  const json alone = HttpClient(served->port()).post("/v1/completions", ask).json();
  HttpClient bystander(served->port());
  bystander.send_bytes(HttpClient::request("POST", "/v1/completions", ask.dump()));

  const std::string path = "/v1/completions";
  const std::vector<std::pair<std::string, int>> bodies = {
      {"", 400},
      {"{", 400},
      {"[]", 400},
      {std::string(3000, '['), 400},
      {std::string(100'000, '{'), 400},
      {"{\"prompt\": \"\xFF\xFE\"}", 400},
      {"{\"prompt\": \"\\ud800\"}", 400},
      {R"({"prompt": "x", "max_tokens": 1e999})", 400},
      {R"({"prompt": "x", "max_tokens": -1})", 400},
      {R"({"prompt": "x", "max_tokens": 2147483648})", 400},
      {R"({"prompt": "x", "max_tokens": 99999999999999999999999})", 400},
      {R"({"prompt": "x", "temperature": -1e308})", 400},
      {R"({"prompt": "x", "seed": 4294967295})", 400},
      {R"({"prompt": [99999999]})", 400},
      {R"({"prompt": []})", 400},
      {R"({"prompt": "x", "logit_bias": {"99999": 1}})", 400},
      {R"({"prompt": "x", "stop": ["", ""]})", 400},
      {R"({"prompt": "x", "grammar": "root ::= root"})", 400},
      {R"({"prompt": "x", "kv": {"policy": "h2o:recent=99999999999"}})", 400},
      {R"({"messages": []})", 400}};
  for (const auto& [body, status] : bodies) {
    HttpClient client(served->port());
    const HttpReply reply = client.ask("POST", path, body);
    EXPECT_EQ(reply.status, status) << body.substr(0, 80) << "\n" << reply.body;
    const json error = reply.json()["error"];
    EXPECT_TRUE(error["message"].is_string() && error["type"].is_string()) << reply.body;
    EXPECT_EQ(client.get("/health").status, 200) << "the connection lives on";
  }
  HttpClient garbage(served->port());
  garbage.send_bytes("\x16\x03\x01 what is this\r\n\r\n");
  EXPECT_EQ(garbage.receive().status, 400);
  EXPECT_TRUE(garbage.ended());

  const HttpReply beside = bystander.receive();
  ASSERT_EQ(beside.status, 200) << beside.body;
  EXPECT_EQ(beside.json()["choices"], alone["choices"]);
}

TEST_F(ServerTest, HttpItself) {
  serve::ServerOptions options;
  options.limits.body_bytes = 100'000;
  const auto served = serve(options);
  HttpClient client(served->port());
  EXPECT_EQ(client.get("/nothing").status, 404);
  const HttpReply wrong = client.get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.field("allow"), "POST");
  EXPECT_EQ(wrong.field("access-control-allow-origin"), "") << "no CORS";

  // The head is judged before the body comes.
  client.send_bytes(
      "POST /v1/completions HTTP/1.1\r\nHost: a.localhost\r\nContent-Length: 9\r\n\r\n");
  EXPECT_EQ(client.receive().status, 403);
  EXPECT_TRUE(client.ended());

  HttpClient waiting(served->port());
  const std::string body = completion("a", 3).dump();
  waiting.send_bytes(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(waiting.receive_head().status, 100);
  waiting.send_bytes(body);
  EXPECT_EQ(waiting.receive().json()["usage"]["completion_tokens"], 3);

  HttpClient large(served->port());
  const HttpReply refused = large.ask("POST", "/v1/completions", std::string(200'000, ' '));
  EXPECT_EQ(refused.status, 413);
  EXPECT_EQ(refused.json()["error"]["code"], "body_too_large");
  HttpClient chunked(served->port());
  chunked.send_bytes(
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\n{\"con\r\nc\r\ntent\": \"hi\"}\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.receive().status, 200);

  HttpClient old(served->port());
  json streamed = completion("a", 9);
  const std::string whole = old.post("/v1/completions", streamed).json()["choices"][0]["text"];
  streamed["stream"] = true;
  const std::string text = streamed.dump();
  old.send_bytes("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(text.size()) +
                 "\r\n\r\n" + text);
  const HttpReply to_the_end = old.receive();
  EXPECT_EQ(to_the_end.field("transfer-encoding"), "") << "HTTP/1.0 knows no chunks";
  EXPECT_EQ(Events(to_the_end.body).text(), whole);
}

}  // namespace
}  // namespace quire
