// Goal: the templates of real models give the prompts their makers meant, and their form of tool
// calls is found, bound and read back.
// Method: SmolLM2 and Qwen from their files; expected texts derived by hand from the templates.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/chat.h"
#include "model/real_model.h"

namespace quire {
namespace {

using model::ChatPrompt;
using model::ChatTemplate;

struct Opened {
  std::unique_ptr<model::Model> model;
  std::unique_ptr<ChatTemplate> form;
};

Opened open(const std::string& path) {
  auto loaded = model::Model::load({.path = path, .threads = test::test_threads()});
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  Opened opened{*std::move(loaded), nullptr};
  auto form = ChatTemplate::open(*opened.model, {});
  EXPECT_TRUE(form.ok()) << form.status().message();
  opened.form = *std::move(form);
  return opened;
}

constexpr char kHello[] = R"([{"role": "user", "content": "Hi"}])";

TEST(RealChat, SmolLm2) {
  const std::string path = test::real_model(test::kSmolLm);
  QUIRE_NEED(path);
  if (!model::has_full_templates()) GTEST_SKIP() << "built without llama-chat";
  const Opened opened = open(path);
  const auto prompt = opened.form->apply({.messages = kHello});
  ASSERT_TRUE(prompt.ok()) << prompt.status().message();
  EXPECT_EQ(prompt->text,
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(prompt->tokens.front(), 1) << "<|im_start|> is begin-of-text here, once";
  EXPECT_NE(prompt->tokens[1], 1);
  EXPECT_FALSE(opened.form->takes_tools());
  const Status refused =
      opened.form
          ->apply(
              {.messages = kHello, .tools = R"([{"type": "function", "function": {"name": "f"}}])"})
          .status();
  EXPECT_EQ(refused.code(), Code::kUnsupported);
}

TEST(RealChat, QwenWithTools) {
  const std::string path = test::real_model(test::kQwenCoder);
  QUIRE_NEED(path);
  if (!model::has_full_templates()) GTEST_SKIP() << "built without llama-chat";
  const Opened opened = open(path);
  ASSERT_TRUE(opened.form->takes_tools());
  const auto prompt = opened.form->apply(
      {.messages = R"([{"role": "user", "content": "rain?"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function",
         "function": {"name": "weather", "arguments": "{\"place\": \"Oslo\"}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "dry"}])",
       .tools = R"([{"type": "function", "function": {"name": "weather", "description": "d",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}}}}])"});
  ASSERT_TRUE(prompt.ok()) << prompt.status().message();
  EXPECT_EQ(
      prompt->text,
      "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.\n\n"
      "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
      "provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
      R"({"type": "function", "function": {"name": "weather", "description": "d", "parameters": )"
      R"({"type": "object", "properties": {"place": {"type": "string"}}}}})"
      "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
      "within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
      "\"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n"
      "<|im_start|>user\nrain?<|im_end|>\n"
      "<|im_start|>assistant\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": "
      "\"Oslo\"}}\n</tool_call><|im_end|>\n"
      "<|im_start|>user\n<tool_response>\ndry\n</tool_response><|im_end|>\n"
      "<|im_start|>assistant\n");
  EXPECT_TRUE(prompt->grammar_start.lazy);
  const auto answer = prompt->reader->read(
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": \"Bergen\"}}\n</tool_call>",
      false);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  ASSERT_EQ(answer->tool_calls.size(), 1u);
  EXPECT_EQ(answer->tool_calls[0].name, "weather");
  EXPECT_EQ(nlohmann::json::parse(answer->tool_calls[0].arguments),
            nlohmann::json::parse(R"({"place": "Bergen"})"));

  const auto bound = opened.form->apply(
      {.messages = kHello, .json_schema = R"({"type": "object", "properties": {"a": {}}})"});
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  const auto sampler = model::Sampler::create(
      *opened.model, {.grammar = bound->grammar, .grammar_start = bound->grammar_start});
  EXPECT_TRUE(sampler.ok()) << sampler.status().message();
}

}  // namespace
}  // namespace quire
