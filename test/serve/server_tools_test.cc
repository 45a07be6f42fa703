// Goal: over a socket, tools are shown, called, and answered, and answers follow their schema,
//   whole and streamed; what could not be enforced is refused.
// Method: a small random model with a template that has tools; what it says is nonsense wherever
//   the grammar leaves a choice, so what has a form has it from the grammar.

#include <gtest/gtest.h>

#include "model/chat.h"
#include "serve/served.h"
#include "serve/tiny_server_model.h"
#include "support/tool_form.h"

namespace quire {
namespace {

using nlohmann::json;
using test::Events;
using test::HttpClient;
using test::HttpReply;
using test::Served;

const json kRoll = json::parse(R"({"type": "function", "function": {"name": "roll", "strict": true,
    "parameters": {"type": "object", "properties": {"faces": {"enum": [4, 6]}},
                   "required": ["faces"], "additionalProperties": false}}})");
const json kHalt = json::parse(R"({"type": "function", "function": {"name": "halt", "parameters":
    {"type": "object", "properties": {"now": {"type": "boolean"}}, "required": ["now"],
     "additionalProperties": false}}})");

class ToolsTest : public test::TinyModelTest {
 protected:
  static void SetUpTestSuite() { load({.context = 2048, .chat_template = test::kToolForm}); }
  void SetUp() override {
    if (!model::has_full_templates()) GTEST_SKIP() << "built without llama-chat";
    cache_ = test::attached_cache(*model_, std::size_t{8} << 20);
    ASSERT_NE(cache_, nullptr);
    serve::ServerOptions options;
    options.defaults.sampler.temperature = 0;
    served_ = std::make_unique<Served>(*model_, *cache_, std::move(options));
  }
  json ask(json more) const {
    json body = {{"messages", {{{"role", "user"}, {"content", "a die"}}}},
                 {"max_tokens", 400},
                 {"tools", {kRoll, kHalt}}};
    body.update(more);
    for (auto at = body.begin(); at != body.end();) at = at->is_null() ? body.erase(at) : ++at;
    return body;
  }
  HttpReply post(const json& body) const {
    return HttpClient(served_->port()).post("/v1/chat/completions", body);
  }

  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Served> served_;
};

TEST_F(ToolsTest, ANamedFunctionIsCalledWholeAndStreamed) {
  json body = ask({{"tool_choice", {{"type", "function"}, {"function", {{"name", "roll"}}}}},
                   {"parallel_tool_calls", false}});
  const HttpReply reply = post(body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json choice = reply.json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls") << reply.body;
  const json message = choice["message"];
  ASSERT_EQ(message["tool_calls"].size(), 1u) << reply.body;
  const json call = message["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_TRUE(call["id"].get<std::string>().starts_with("call_"));
  EXPECT_EQ(call["function"]["name"], "roll");
  const json arguments = json::parse(call["function"]["arguments"].get<std::string>());
  EXPECT_TRUE(arguments == json({{"faces", 4}}) || arguments == json({{"faces", 6}})) << arguments;

  body["stream"] = true;
  const Events events(post(body).body);
  EXPECT_TRUE(events.done);
  EXPECT_EQ(events.finish(), "tool_calls");
  json calls = events.calls();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_NE(calls[0]["id"], call["id"]) << "ids are of an answer";
  calls[0]["id"] = call["id"];
  EXPECT_EQ(calls[0], call);

  // Its answer goes back, and reaches the template.
  body.erase("stream");
  json assistant = message;
  body["messages"].push_back(assistant);
  body["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "four!"}});
  EXPECT_EQ(post(body).status, 200);
  const json rendered =
      HttpClient(served_->port())
          .post("/apply-template", {{"messages", body["messages"]}, {"tools", body["tools"]}})
          .json();
  const std::string prompt = rendered["prompt"];
  EXPECT_NE(prompt.find("\"name\": \"halt\""), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("<tool_call>\n{\"name\": \"roll\""), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("<tool_response>\nfour!"), std::string::npos) << prompt;
}

TEST_F(ToolsTest, RequiredCallsOneOfThemAndSeveralAnswersEachTheirOwn) {
  const json whole =
      post(ask({{"tool_choice", "required"}, {"n", 3}, {"seed", 5}, {"temperature", 1.5}})).json();
  ASSERT_EQ(whole["choices"].size(), 3u) << whole.dump();
  for (const json& choice : whole["choices"]) {
    if (choice["finish_reason"] == "length") continue;  // parallel calls may go on
    EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice.dump();
    for (const json& call : choice["message"]["tool_calls"]) {
      const std::string name = call["function"]["name"];
      EXPECT_TRUE(name == "roll" || name == "halt") << name;
      EXPECT_TRUE(json::accept(call["function"]["arguments"].get<std::string>())) << call.dump();
    }
  }
}

TEST_F(ToolsTest, AutoAndNoneMayJustTalk) {
  const json plain = post(ask({{"tools", nullptr}, {"max_tokens", 20}})).json();
  const json none = post(ask({{"tool_choice", "none"}, {"max_tokens", 20}})).json();
  EXPECT_GT(none["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"]) << "they are shown";
  EXPECT_FALSE(none["choices"][0]["message"].contains("tool_calls"));
  json body = ask({{"max_tokens", 20}});
  const json automatic = post(body).json()["choices"][0];
  EXPECT_EQ(automatic["finish_reason"], "length");
  EXPECT_TRUE(automatic["message"]["content"].is_string());
  body["stream"] = true;
  EXPECT_EQ(Events(post(body).body).text(), automatic["message"]["content"]);
}

TEST_F(ToolsTest, AnswersFollowTheirSchema) {
  const json schema = json::parse(R"({"type": "object", "properties": {
      "kind": {"enum": ["cat", "dog"]}, "age": {"type": "integer", "minimum": 1, "maximum": 3},
      "tame": {"type": "boolean"}}, "required": ["kind", "age", "tame"],
      "additionalProperties": false})");
  for (const bool strict : {true, false}) {
    json body =
        ask({{"tools", nullptr},
             {"response_format",
              {{"type", "json_schema"},
               {"json_schema", {{"name", "pet"}, {"strict", strict}, {"schema", schema}}}}}});
    const json choice = post(body).json()["choices"][0];
    ASSERT_EQ(choice["finish_reason"], "stop") << choice.dump();
    const std::string text = choice["message"]["content"];
    const json pet = json::parse(text);
    EXPECT_TRUE(pet["kind"] == "cat" || pet["kind"] == "dog") << text;
    EXPECT_TRUE(pet["age"] >= 1 && pet["age"] <= 3) << text;
    EXPECT_TRUE(pet["tame"].is_boolean()) << text;
    EXPECT_EQ(pet.size(), 3u);
    body["stream"] = true;
    EXPECT_EQ(Events(post(body).body).text(), text);
  }
  json text = {{"prompt", "x"}, {"max_tokens", 200}};
  text["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"schema", schema}}}};
  const json continued =
      HttpClient(served_->port()).post("/v1/completions", text).json()["choices"][0];
  EXPECT_TRUE(json::parse(continued["text"].get<std::string>()).contains("tame")) << continued;
}

TEST_F(ToolsTest, WhatCannotBeEnforcedIsRefusedByItsField) {
  const auto schema = [](const char* text) {
    return json{{"type", "json_schema"}, {"json_schema", {{"schema", json::parse(text)}}}};
  };
  const auto tool = [](const char* parameters, bool strict) {
    return json::array(
        {{{"type", "function"},
          {"function",
           {{"name", "f"}, {"strict", strict}, {"parameters", json::parse(parameters)}}}}});
  };
  const json nothing = nullptr;
  const std::vector<std::pair<json, std::string>> cases = {
      {{{"tools", nothing}, {"response_format", schema(R"({"not": {}})")}}, "response_format"},
      {{{"tools", nothing}, {"response_format", schema(R"({"$ref": "#/nowhere"})")}},
       "response_format"},
      {{{"tools", nothing}, {"response_format", schema(R"({"type": "string", "pattern": "("})")}},
       "response_format"},
      {{{"tools", tool(R"({"type": "object", "minProperties": 2})", true)}},
       "tools[0].function.parameters"},
      {{{"tools", json::array({1})}}, "tools[0].type"},
      {{{"tool_choice", "required"}, {"tools", nothing}}, "tool_choice"},
      {{{"tool_choice", {{"type", "function"}, {"function", {{"name", "fly"}}}}}}, "tool_choice"},
      {{{"response_format", {{"type", "json_object"}}}}, "response_format"},
      {{{"messages", {{{"role", "king"}, {"content", "x"}}}}}, "messages[0].role"},
      {{{"messages", {{{"role", "user"}}}}}, "messages[0].content"},
      {{{"messages",
         {{{"role", "assistant"},
           {"tool_calls", {{{"type", "function"}, {"function", {{"name", "f"}}}}}}}}}},
       "messages[0].tool_calls[0].function.arguments"}};
  for (const auto& [more, field] : cases) {
    const HttpReply reply = post(ask(more));
    EXPECT_EQ(reply.status, 400) << field << ": " << reply.body;
    EXPECT_EQ(reply.json()["error"]["param"], field) << reply.body;
    EXPECT_EQ(reply.json()["error"]["type"], "invalid_request_error");
  }
  // Of a loose one the arguments are an object, whatever is in it.
  EXPECT_EQ(post(ask({{"tools", tool(R"({"type": "object", "minProperties": 2})", false)},
                      {"max_tokens", 3}}))
                .status,
            200);
}

}  // namespace
}  // namespace quire
