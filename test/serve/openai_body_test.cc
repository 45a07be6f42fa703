// Goal: a body becomes the request it asks for, and one that asks for what cannot be is refused by
//   the name of its field.
// Method: bodies written here, read without a model.

#include "serve/openai_body.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace quire::serve {
namespace {

using nlohmann::json;

Body read(const json& object, Endpoint endpoint = Endpoint::kCompletions) {
  Body body{.endpoint = endpoint};
  const Status status = read_body(object, body);
  EXPECT_TRUE(status.ok()) << status.message();
  return body;
}

std::string refusal(const json& object, Endpoint endpoint = Endpoint::kCompletions) {
  Body body{.endpoint = endpoint};
  const Status status = read_body(object, body);
  EXPECT_FALSE(status.ok()) << object.dump();
  return status.message();
}

TEST(OpenAiBody, EveryFieldReachesTheEngine) {
  const Body body = read({{"model", "m"},
                          {"prompt", "once"},
                          {"max_tokens", 7},
                          {"min_tokens", 3},
                          {"temperature", 0.5},
                          {"top_p", 0.9},
                          {"top_k", 11},
                          {"min_p", 0.1},
                          {"seed", 42},
                          {"stop", {"a", "b"}},
                          {"ignore_eos", true},
                          {"presence_penalty", 0.25},
                          {"frequency_penalty", -0.5},
                          {"repetition_penalty", 1.5},
                          {"logit_bias", {{"5", 1.5}, {"9", -100}}},
                          {"n", 3},
                          {"stream", true},
                          {"stream_options", {{"include_usage", true}}},
                          {"logprobs", 2},
                          {"priority", -3},
                          {"cache_salt", "tenant"},
                          {"cache_prompt", false},
                          {"user", "u"},
                          {"metadata", {{"a", "b"}}},
                          {"suffix", nullptr},
                          {"kv", {{"policy", "h2o"}, {"keep", "25%"}, {"on_overflow", "stream"}}}});
  const engine::GenerateOptions& options = body.request.options;
  const model::SamplerOptions& sampler = options.sampler;
  EXPECT_EQ(body.prompt, "once");
  EXPECT_EQ(std::tuple(options.max_tokens, options.min_tokens, options.stop_at_end),
            std::tuple(7u, 3u, false));
  EXPECT_EQ(std::tuple(sampler.temperature, sampler.top_p, sampler.top_k, sampler.min_p),
            std::tuple(0.5f, 0.9f, 11, 0.1f));
  EXPECT_EQ(sampler.seed, 42u);
  EXPECT_EQ(options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(std::tuple(sampler.presence_penalty, sampler.frequency_penalty, sampler.repeat_penalty),
            std::tuple(0.25f, -0.5f, 1.5f));
  EXPECT_EQ(sampler.logit_bias,
            (std::vector<std::pair<model::Token, float>>{{5, 1.5f}, {9, -100}}));
  EXPECT_EQ(body.answers, 3u);
  EXPECT_TRUE(body.stream && body.include_usage && body.logprobs && body.max_tokens_given);
  EXPECT_EQ(body.top_logprobs, 2u);
  EXPECT_EQ(body.request.priority, -3);
  EXPECT_EQ(body.request.salt, "tenant");
  EXPECT_FALSE(body.request.prefix_cache);
  ASSERT_TRUE(options.policy);
  EXPECT_EQ(options.policy->name, "h2o");
  EXPECT_EQ(engine::to_string(options.keep), "25%");
  EXPECT_EQ(body.request.on_overflow, engine::Overflow::kStream);
}

TEST(OpenAiBody, AGateIsTheRequestsAndWhatItJudgesByTheServers) {
  for (const auto& [name, rule] :
       {std::pair("open", engine::GateRule::kOpen), std::pair("closed", engine::GateRule::kClosed),
        std::pair("auto", engine::GateRule::kAuto)}) {
    Body body{.endpoint = Endpoint::kCompletions};
    body.request.options.gate.calibration.threshold = 0.5;
    ASSERT_TRUE(read_body({{"prompt", "x"}, {"kv", {{"gate", name}}}}, body).ok());
    EXPECT_EQ(body.request.options.gate.rule, rule);
    EXPECT_EQ(body.request.options.gate.calibration.threshold, 0.5);
  }
}

TEST(OpenAiBody, AChatsFields) {
  const Body body =
      read({{"messages",
             {{{"role", "developer"}, {"content", "be brief"}},
              {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "hi"}}}}},
              {{"role", "assistant"}, {"content", "yes"}, {"tool_calls", json::array()}},
              {{"role", "user"}, {"content", "go on"}, {"name", "ann"}}}},
            {"max_tokens", 5},
            {"max_completion_tokens", 5},
            {"logprobs", true},
            {"top_logprobs", 4},
            {"tools", json::array()},
            {"tool_choice", "auto"},
            {"chat_template_kwargs", {{"enable_thinking", false}}},
            {"response_format", {{"type", "json_object"}}}},
           Endpoint::kChat);
  const json messages = json::parse(body.chat.messages);
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0], json({{"role", "system"}, {"content", "be brief"}}));
  EXPECT_EQ(messages[1]["content"][0]["text"], "hi");
  EXPECT_EQ(body.chat.variables, R"({"enable_thinking":false})");
  EXPECT_FALSE(body.may_call());
  EXPECT_EQ(body.request.options.max_tokens, 5u);
  EXPECT_EQ(body.top_logprobs, 4u);
  EXPECT_TRUE(body.formed() && body.chat.json_object);
}

TEST(OpenAiBody, ToolsAndSchemasGoToTheTemplateAsTheyAreWritten) {
  const std::string text = R"({
      "messages": [
        {"role": "user", "content": "rain?"},
        {"role": "assistant", "content": null, "refusal": null, "annotations": [], "tool_calls": [
          {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "dry"}],
      "tools": [{"type": "function", "function": {"name": "f", "parameters":
        {"type": "object", "properties": {"z": {}, "a": {}}}}}],
      "tool_choice": {"type": "function", "function": {"name": "f"}},
      "parallel_tool_calls": false})";
  const Result<Json> object = parse_json(text, 10'000);
  ASSERT_TRUE(object.ok()) << object.status().message();
  Body body{.endpoint = Endpoint::kChat};
  const Status status = read_body(*object, body);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(body.may_call());
  EXPECT_LT(body.chat.tools.find("\"z\""), body.chat.tools.find("\"a\"")) << "the model sees them";
  EXPECT_EQ(body.chat.tool_choice, model::ToolChoice::kRequired);
  EXPECT_EQ(body.chat.tool_name, "f");
  EXPECT_FALSE(body.chat.parallel_tool_calls);
  EXPECT_NE(body.chat.messages.find("\"tool_call_id\":\"c1\""), std::string::npos);

  const json schema = {{"type", "object"}};
  for (const json& format :
       {json{{"type", "json_schema"},
             {"json_schema", {{"name", "n"}, {"schema", schema}, {"strict", true}}}},
        json{{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", schema}}}},
        json{{"type", "json_object"}, {"schema", schema}}}) {
    const Body formed = read({{"prompt", "x"}, {"response_format", format}});
    EXPECT_EQ(formed.chat.json_schema, R"({"type":"object"})") << format.dump();
    EXPECT_FALSE(formed.chat.json_object);
  }
}

TEST(OpenAiBody, WhatADefaultPolicyDropsExactKeeps) {
  Body body{.endpoint = Endpoint::kCompletions};
  body.request.options.policy = *make_policy("h2o");
  body.request.options.keep = *engine::parse_keep("25%");
  ASSERT_TRUE(read_body({{"prompt", "x"}, {"kv", {{"mode", "exact"}}}}, body).ok());
  EXPECT_FALSE(body.request.options.policy);
  EXPECT_EQ(body.request.options.keep.unit, engine::Keep::Unit::kPool);
}

TEST(OpenAiBody, ARefusalNamesItsField) {
  const json nothing = nullptr;
  const std::vector<std::tuple<const char*, json, const char*>> cases = {
      {"max_tokens", -1, "max_tokens: -1 is not a whole number from 0"},
      {"max_tokens", 1e30, "max_tokens: 1e+30 is not"},
      {"max_tokens", 18446744073709551615u, "max_tokens: 18446744073709551615 is not"},
      {"max_tokens", std::int64_t{-9223372036854775807}, "max_tokens: "},
      {"max_tokens", true, "max_tokens: true is not"},
      {"temperature", "hot", "temperature: \"hot\" is not a number"},
      {"temperature", -0.5, "temperature: -0.5 is not"},
      {"presence_penalty", 2.5, "presence_penalty: 2.5 is not a number from -2.0 to 2.0"},
      {"frequency_penalty", json::array(), "frequency_penalty: an array"},
      {"n", 0, "n: 0 is not a whole number from 1"},
      {"n", 17, "n: 17 is not"},
      {"stream", 1, "stream: 1 is not true or false"},
      {"logprobs", 21, "logprobs: 21 is not"},
      {"logit_bias", json::array(), "logit_bias: an array is not an object"},
      {"logit_bias", {{"x", 1}}, "logit_bias: \"x\" is not the number of a token"},
      {"logit_bias", {{"-4", 1}}, "logit_bias: \"-4\" is not"},
      {"logit_bias", {{"99999999999", 1}}, "logit_bias: \"99999999999\" is not"},
      {"logit_bias", {{"4", 101}}, "logit_bias: 101 is not a number"},
      {"stop", std::string(2000, 'x'), "stop: a text of over 1024 bytes"},
      {"seed", -1, "seed: -1 is not"},
      {"priority", 1001, "priority: 1001 is not a whole number from -1000 to 1000"},
      {"cache_salt", "", "cache_salt: not a text of 1 to 256 bytes"},
      {"cache_prompt", 1, "cache_prompt: 1 is not true or false"},
      {"stream_options", {{"include_usage", true}}, "stream_options: only with \"stream\": true"},
      {"stream_options", {{"other", 1}}, "stream_options.other: not supported"},
      {"echo", true, "echo: true is not supported"},
      {"best_of", 2, "best_of: 2 is not supported"},
      {"grammar", "root ::= \"a\"{9999}", "grammar: a repetition of over 256"},
      {"response_format",
       {{"type", "json_schema"}},
       "response_format.json_schema: null is not an object"},
      {"response_format",
       {{"type", "json_schema"}, {"json_schema", {{"name", "n"}}}},
       "response_format.json_schema.schema: null is not an object"},
      {"response_format",
       {{"type", "json_schema"}, {"json_schema", {{"regex", "n"}}}},
       "response_format.json_schema.regex: not supported"},
      {"response_format", {{"type", "xml"}}, "response_format.type: \"xml\" is none of"},
      {"response_format", "json", "response_format.type: null is none of"},
      {"kv", {{"window", 1}}, "kv.window: not supported"},
      {"kv", {{"mode", "exact"}, {"policy", "h2o"}}, "kv.mode: \"exact\" drops nothing"},
      {"kv", {{"mode", "lossy"}}, "kv.mode: \"lossy\" needs a policy"},
      {"kv", {{"mode", "some"}}, "kv.mode: \"some\" is none of exact, lossy"},
      {"kv", {{"gate", "shut"}}, "kv.gate: \"shut\" is none of auto, open, closed, self-check"},
      {"kv", {{"gate", 1}}, "kv.gate: 1 is not a string"},
      {"kv", {{"first_token", "strict"}}, "kv.first_token: \"strict\" is not supported"},
      {"kv", {{"keep", "9 lives"}}, "kv.keep: "},
      {"kv",
       {{"on_overflow", "truncate"}},
       "kv.on_overflow: \"truncate\" is none of refuse, stream"},
      {"prompt", nothing, "prompt: missing"},
      {"prompt", json::array({json::array({1, "x"})}), "prompt[1]: \"x\" is not"},
      {"messages", json::array(), "messages: not supported"},
      {"reasoning", 1, "reasoning: not supported"},
      {"metadata", 3, "metadata: 3 is not an object"}};
  for (const auto& [field, value, message] : cases) {
    json object = {{"prompt", "x"}};
    object[field] = value;
    const std::string said = refusal(object);
    EXPECT_TRUE(said.starts_with(message)) << said << "\nwanted: " << message;
    const std::string named = field_of({Code::kInvalidArgument, said});
    EXPECT_TRUE(named.starts_with(field)) << named;
  }
}

TEST(OpenAiBody, PairsThatCannotBe) {
  const json chat = {{"messages", {{{"role", "user"}, {"content", "x"}}}}};
  const auto refused = [&](json more) {
    more.update(chat);
    return refusal(more, Endpoint::kChat);
  };
  EXPECT_EQ(refused({{"max_tokens", 1}, {"max_completion_tokens", 2}}),
            "max_completion_tokens: and max_tokens: give one of them");
  EXPECT_EQ(refused({{"top_logprobs", 2}}), "top_logprobs: only with \"logprobs\": true");
  EXPECT_EQ(refused({{"min_tokens", 5}, {"max_tokens", 4}}), "min_tokens: 5 is over max_tokens, 4");
  EXPECT_EQ(refused({{"grammar", "root ::= \"a\""}, {"ignore_eos", true}}),
            "ignore_eos: not with a grammar");
  EXPECT_EQ(refused({{"response_format", {{"type", "json_object"}}}, {"min_tokens", 5}}),
            "min_tokens: not with a grammar");
  EXPECT_EQ(
      refused({{"response_format", {{"type", "json_object"}}}, {"grammar", "root ::= \"a\""}}),
      "response_format: and grammar: give one of them");
  const json tools = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
  EXPECT_EQ(refused({{"tools", tools}, {"grammar", "root ::= \"a\""}}),
            "tools: and grammar: give one of them");
  EXPECT_EQ(refused({{"tools", tools}, {"ignore_eos", true}}), "ignore_eos: not with tools");
  EXPECT_EQ(refused({{"tools", tools}, {"min_tokens", 5}}), "min_tokens: not with tools");
  EXPECT_EQ(refused({{"tools", tools}, {"response_format", {{"type", "json_object"}}}}),
            "response_format: not together with tools that may be called");
  EXPECT_EQ(refused({{"tools", 1}}), "tools: 1 is not an array");
  EXPECT_EQ(refused({{"tool_choice", "any"}}).substr(0, 34),
            "tool_choice: \"any\" is none of \"non");
  EXPECT_EQ(refused({{"tool_choice", {{"type", "function"}, {"function", {{"name", 1}}}}}}),
            "tool_choice.function.name: 1 is not a string");
  EXPECT_EQ(refused({{"chat_template_kwargs", 1}}), "chat_template_kwargs: 1 is not an object");
  EXPECT_EQ(refusal({{"messages", {{{"role", "user"}, {"content", "x"}, {"audio", 1}}}}},
                    Endpoint::kChat),
            "messages[0].audio: not supported");
  // What calls nothing binds nothing.
  read({{"messages", chat["messages"]},
        {"tools", tools},
        {"tool_choice", "none"},
        {"response_format", {{"type", "json_object"}}}},
       Endpoint::kChat);
}

TEST(OpenAiBody, AFieldThatIsNoNameIsNotRepeatedAsOne) {
  const std::string said = refusal({{"prompt", "x"}, {"a \"b\"\n: c", 1}});
  EXPECT_EQ(field_of({Code::kInvalidArgument, said}), "");
}

TEST(ParseJson, RefusesWhatNoParserShouldMeet) {
  const auto message = [](const std::string& text) {
    const Result<Json> object = parse_json(text, 10'000);
    return object.ok() ? std::string("none") : object.status().message();
  };
  EXPECT_EQ(message(std::string(3000, '[')), "brackets 3000 deep, over the limit of 64");
  EXPECT_EQ(message(std::string(20'000, ' ')), "20000 bytes, over the limit of 10000");
  EXPECT_EQ(message("{\"a\": \"\xC3\"}"), "not JSON at byte 9");
  EXPECT_EQ(message("1e999"), "a number is over what a double holds");
  EXPECT_EQ(message(""), "not JSON at byte 1");
  std::string wide = "{";
  for (int i = 0; i < 11'000; ++i) wide += "\"" + std::to_string(i) + "\":1,";
  wide.back() = '}';
  const Result<Json> object = parse_json(wide, 1 << 20);
  EXPECT_EQ(object.status().message(), "objects of too many members");
  EXPECT_EQ(message("{\"[[[\": \"{{{\\\"[\"}"), "none");
}

}  // namespace
}  // namespace quire::serve
