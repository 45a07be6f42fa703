// Goal: conversations become the text that their template means, tools and schemas bind answers and
// are read back from them, and no message, template or answer, however hostile, does more than get
// a refusal that names its field.
// Method: a tiny model with templates written here, expected texts worked out by hand; bombs of
// each kind, which must come back at all.

#include "model/chat.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/running.h"
#include "support/tiny_model.h"
#include "support/tool_form.h"

namespace quire {
namespace {

using model::ChatAnswer;
using model::ChatPrompt;
using model::ChatRequest;
using model::ChatTemplate;
using model::ToolChoice;
using nlohmann::json;
using test::kToolForm;

constexpr char kHello[] = R"([{"role": "user", "content": "hello"}])";
constexpr char kWeather[] =
    R"([{"type": "function", "function": {"name": "weather", "description": "Of a place",
     "parameters": {"type": "object", "properties": {"place": {"type": "string"}},
                    "required": ["place"]}}}])";

class ChatTest : public testing::Test {
 protected:
  const model::Model& model(const std::string& form = test::TinyModel().chat_template,
                            const std::string& architecture = "llama") {
    EXPECT_TRUE(test::write_tiny_model({.architecture = architecture, .chat_template = form},
                                       file_.path()));
    auto loaded = model::Model::load({.path = file_.path(), .threads = 1});
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    models_.push_back(*std::move(loaded));
    return *models_.back();
  }

  Result<std::unique_ptr<ChatTemplate>> try_open(const std::string& form) {
    return ChatTemplate::open(model(), {.form = form});
  }
  std::unique_ptr<ChatTemplate> open(const std::string& form) {
    auto opened = try_open(form);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  test::TempFile file_{"chat-test.gguf"};
  std::vector<std::unique_ptr<model::Model>> models_;
};

#define NEED_FULL_TEMPLATES() \
  if (!model::has_full_templates()) GTEST_SKIP() << "built without llama-chat"

ChatPrompt applied(const ChatTemplate& form, const ChatRequest& request) {
  Result<ChatPrompt> prompt = form.apply(request);
  EXPECT_TRUE(prompt.ok()) << prompt.status().message();
  return prompt.ok() ? *std::move(prompt) : ChatPrompt{};
}

TEST_F(ChatTest, RendersTheFilesOwnTemplate) {
  const auto opened = ChatTemplate::open(model(), {});
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const ChatPrompt prompt = applied(
      **opened, {.messages = R"([{"role": "system", "content": "short"}, {"role": "user", "content":
          [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])"});
  EXPECT_EQ(prompt.text,
            "<|im_start|>system\nshort<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_TRUE(prompt.grammar.empty());
  const ChatPrompt closed = applied(**opened, {.messages = kHello, .add_generation_prompt = false});
  EXPECT_EQ(closed.text, "<|im_start|>user\nhello<|im_end|>\n");
  const Result<ChatAnswer> answer = prompt.reader->read("<think> {\"a\": 1}\n", true);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->content, "<think> {\"a\": 1}\n");
}

TEST_F(ChatTest, AFileWithoutATemplateSaysSo) {
  const auto opened = ChatTemplate::open(model(""), {});
  EXPECT_EQ(opened.status().code(), Code::kNotFound);
  EXPECT_NE(opened.status().message().find("tokenizer.chat_template"), std::string::npos);
}

TEST_F(ChatTest, TemplatesHaveNames) {
  const ChatPrompt prompt = applied(*open("chatml"), {.messages = kHello});
  EXPECT_EQ(prompt.text, "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n");
  const auto unknown = try_open("chatmal");
  EXPECT_EQ(unknown.status().code(), Code::kInvalidArgument);
  EXPECT_NE(unknown.status().message().find("chatmal"), std::string::npos);
  EXPECT_EQ(open("chatml")->apply({.messages = kHello, .tools = kWeather}).status().code(),
            Code::kUnsupported);
}

// Whether the template writes it, the tokenizer adds it, both or neither.
TEST_F(ChatTest, BeginOfTextOnce) {
  NEED_FULL_TEMPLATES();
  for (const std::string begin : {"", "{{ bos_token }}"}) {
    for (const char* architecture : {"llama", "qwen2"}) {  // adds one, adds none
      const model::Model& loaded = model(begin + "{{ messages[0].content }}", architecture);
      const auto form = ChatTemplate::open(loaded, {});
      ASSERT_TRUE(form.ok()) << form.status().message();
      const std::vector<model::Token> tokens = applied(**form, {.messages = kHello}).tokens;
      std::size_t count = 0;
      for (const model::Token token : tokens) {
        const std::string piece = loaded.piece(token, true);
        count += piece == "<s>" || piece == "<|endoftext|>";
      }
      const bool wanted = std::string(architecture) == "llama" || !begin.empty();
      EXPECT_EQ(count, wanted ? 1u : 0u) << architecture << " " << begin;
    }
  }
}

TEST_F(ChatTest, ToolsAndTheirCallsAreShown) {
  NEED_FULL_TEMPLATES();
  const auto form = open(kToolForm);
  ASSERT_TRUE(form->takes_tools());
  const ChatPrompt prompt = applied(*form, {.messages = R"([{"role": "user", "content": "rain?"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
         "function": {"name": "weather", "arguments": "{\"place\": \"Oslo\"}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "dry"}])",
                                            .tools = kWeather});
  EXPECT_EQ(
      prompt.text,
      "<|im_start|>system\n# Tools\n<tools>\n"
      R"({"type": "function", "function": {"name": "weather", "description": "Of a place", )"
      R"("parameters": {"type": "object", "properties": {"place": {"type": "string"}}, )"
      R"("required": ["place"]}}})"
      "\n</tools>\n<tool_call>\n{\"name\": <name>, \"arguments\": <object>}\n</tool_call>"
      "<|im_end|>\n<|im_start|>user\nrain?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n"
      "{\"name\": \"weather\", \"arguments\": {\"place\": \"Oslo\"}}\n</tool_call><|im_end|>\n"
      "<|im_start|>user\n<tool_response>\ndry\n</tool_response><|im_end|>\n"
      "<|im_start|>assistant\n");
  EXPECT_TRUE(prompt.grammar_start.lazy);
  ASSERT_FALSE(prompt.grammar_start.words.empty());
  EXPECT_EQ(prompt.grammar_start.words[0].substr(0, 11), "<tool_call>");
}

TEST_F(ChatTest, CallsAreReadBack) {
  NEED_FULL_TEMPLATES();
  const auto form = open(kToolForm);
  const ChatPrompt prompt = applied(*form, {.messages = kHello, .tools = kWeather});
  const std::string one =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": \"Oslo\"}}\n</tool_call>";
  const Result<ChatAnswer> single = prompt.reader->read("Let me see.\n" + one, false);
  ASSERT_TRUE(single.ok()) << single.status().message();
  EXPECT_EQ(single->content.substr(0, 11), "Let me see.");
  ASSERT_EQ(single->tool_calls.size(), 1u);
  EXPECT_EQ(single->tool_calls[0].name, "weather");
  EXPECT_EQ(json::parse(single->tool_calls[0].arguments), json::parse(R"({"place": "Oslo"})"));

  const std::string both = one + "\n" + one;
  const Result<ChatAnswer> pair = prompt.reader->read(both, false);
  ASSERT_TRUE(pair.ok()) << pair.status().message();
  EXPECT_EQ(pair->tool_calls.size(), 2u);

  // As it comes in: nothing that was said is taken back.
  ChatAnswer before;
  for (std::size_t end = 0; end <= both.size(); ++end) {
    const Result<ChatAnswer> now = prompt.reader->read(both.substr(0, end), true);
    ASSERT_TRUE(now.ok()) << end << ": " << now.status().message();
    EXPECT_TRUE(now->content.starts_with(before.content)) << end;
    ASSERT_GE(now->tool_calls.size(), before.tool_calls.size()) << end;
    for (std::size_t i = 0; i < before.tool_calls.size(); ++i) {
      EXPECT_TRUE(now->tool_calls[i].arguments.starts_with(before.tool_calls[i].arguments)) << end;
    }
    before = *now;
  }
  EXPECT_EQ(before.tool_calls.size(), 2u);
  EXPECT_TRUE(prompt.reader->read("no call at all", false).ok());
}

// What a model says that wants to say `wanted`, byte by byte, and where that is forbidden rather
// closes what is open, or ends, than anything else.
std::string said(const model::Model& model, const ChatPrompt& prompt, const std::string& wanted) {
  auto sampler = model::Sampler::create(
      model, {.temperature = 0, .grammar = prompt.grammar, .grammar_start = prompt.grammar_start});
  EXPECT_TRUE(sampler.ok()) << sampler.status().message();
  std::vector<std::string> pieces;
  for (std::uint32_t id = 0; id < model.info().vocabulary; ++id) {
    pieces.push_back(model.piece(static_cast<model::Token>(id), true));
  }
  std::string text;
  for (std::size_t at = 0; sampler.ok() && at < wanted.size() + 20; ++at) {
    std::vector<float> logits(pieces.size(), 0);
    for (std::size_t id = 0; id < logits.size(); ++id) {
      const std::string& piece = pieces[id];
      if (model.is_end(static_cast<model::Token>(id))) logits[id] = 1;
      if (piece == "4" || piece == "1") logits[id] = 2;
      if (piece == "\"") logits[id] = 3;
      if (piece == "}") logits[id] = 4;
      if (at < wanted.size() && piece == wanted.substr(at, 1)) logits[id] = 9;
    }
    const model::Token token = (*sampler)->sample(logits);
    EXPECT_FALSE((*sampler)->stuck()) << text;
    if (model.is_end(token)) return text;
    text += pieces[static_cast<std::size_t>(token)];
  }
  ADD_FAILURE() << "it does not end: " << text;
  return text;
}

TEST_F(ChatTest, ARequiredCallIsAValidOne) {
  NEED_FULL_TEMPLATES();
  const auto form = open(kToolForm);
  const ChatPrompt prompt =
      applied(*form, {.messages = kHello,
                      .tools = R"([{"type": "function", "function": {"name": "roll", "parameters":
          {"type": "object", "properties": {"faces": {"enum": [4, 6]}}, "required": ["faces"]}}},
          {"type": "function", "function": {"name": "stop"}}])",
                      .tool_choice = ToolChoice::kRequired,
                      .tool_name = "roll",
                      .parallel_tool_calls = false});
  EXPECT_FALSE(prompt.grammar_start.lazy);
  EXPECT_NE(prompt.text.find("\"stop\""), std::string::npos) << "all tools are shown";
  const std::string text =
      said(*models_.back(), prompt,
           "<tool_call>\n{\"name\": \"roll\", \"arguments\": {\"faces\": 5}}\n</tool_call>");
  const Result<ChatAnswer> answer = prompt.reader->read(text, false);
  ASSERT_TRUE(answer.ok()) << text << "\n" << answer.status().message();
  ASSERT_EQ(answer->tool_calls.size(), 1u) << text;
  EXPECT_EQ(answer->tool_calls[0].name, "roll");
  const std::string forced = said(*models_.back(), prompt, std::string(300, 'W'));
  EXPECT_EQ(forced.substr(0, 11), "<tool_call>") << "not a word before it";
  EXPECT_EQ(json::parse(answer->tool_calls[0].arguments), json({{"faces", 4}})) << text;
}

TEST_F(ChatTest, AnswersFollowTheSchema) {
  NEED_FULL_TEMPLATES();
  const auto form = open(kToolForm);
  const ChatPrompt prompt =
      applied(*form, {.messages = kHello, .json_schema = R"({"type": "object", "properties":
      {"n": {"type": "integer", "minimum": 1, "maximum": 3}, "s": {"type": "string", "maxLength": 4}},
      "required": ["n", "s"], "additionalProperties": false})"});
  ASSERT_FALSE(prompt.grammar.empty());
  const std::string text = said(*models_.back(), prompt, "{\"n\": 7, \"s\": \"abcdefgh\"}");
  const Result<ChatAnswer> answer = prompt.reader->read(text, false);
  ASSERT_TRUE(answer.ok()) << text << "\n" << answer.status().message();
  EXPECT_EQ(json::parse(answer->content, nullptr, false), json({{"n", 1}, {"s", "abcd"}})) << text;
}

TEST_F(ChatTest, VariablesReachTheTemplate) {
  NEED_FULL_TEMPLATES();
  const auto form = open("{{ messages[0].content }}{% if loud %}!{% endif %}{{ suffix }}");
  EXPECT_EQ(applied(*form, {.messages = kHello}).text, "hello");
  EXPECT_EQ(
      applied(*form, {.messages = kHello, .variables = R"({"loud": true, "suffix": "x"})"}).text,
      "hello!x");
  const Status refused =
      form->apply({.messages = kHello, .variables = R"({"messages": []})"}).status();
  EXPECT_EQ(refused.message().substr(0, 29), "chat_template_kwargs.messages") << refused.message();
}

TEST_F(ChatTest, RefusalsNameTheField) {
  NEED_FULL_TEMPLATES();
  const auto form = open(kToolForm);
  const std::string deep(100, '[');
  const std::pair<ChatRequest, std::string> cases[] = {
      {{.messages = "{"}, "messages: not JSON"},
      {{.messages = "[]"}, "messages: must be"},
      {{.messages = deep}, "messages: nested"},
      {{.messages = "[\"\xff\"]"}, "messages: not JSON"},
      {{.messages = "[1]"}, "messages[0]: "},
      {{.messages = R"([{"role": "user"}])"}, "messages[0].content"},
      {{.messages = R"([{"role": "king", "content": ""}])"}, "messages[0].role"},
      {{.messages = R"([{"role": "user", "content": 3}])"}, "messages[0].content"},
      {{.messages = R"([{"role": "user", "content": [{"type": "image_url"}]}])"},
       "messages[0].content[0].type"},
      {{.messages = R"([{"role": "assistant", "tool_calls": [{"type": "function"}]}])"},
       "messages[0].tool_calls[0].function"},
      {{.messages = R"([{"role": "assistant", "tool_calls": [{"type": "function", "function":
          {"name": "f", "arguments": {}}}]}])"},
       "messages[0].tool_calls[0].function.arguments"},
      {{.messages = R"([{"role": "assistant", "tool_calls": [{"type": "function", "function":
          {"name": "f", "arguments": "{"}}]}])"},
       "messages: "},
      {{.messages = kHello, .tools = "{}"}, "tools: must be a list"},
      {{.messages = kHello, .tools = "[{}]"}, "tools[0].type"},
      {{.messages = kHello, .tools = R"([{"type": "function", "function": {"name": "a b"}}])"},
       "tools[0].function.name"},
      {{.messages = kHello,
        .tools = R"([{"type": "function", "function": {"name": "f", "strict": true,
          "parameters": {"type": "object", "minProperties": 3}}}])"},
       "tools[0].function.parameters"},
      {{.messages = kHello, .tool_choice = ToolChoice::kRequired}, "tool_choice"},
      {{.messages = kHello,
        .tools = kWeather,
        .tool_choice = ToolChoice::kRequired,
        .tool_name = "snow"},
       "tool_choice"},
      {{.messages = kHello, .json_schema = "[]"}, "response_format"},
      {{.messages = kHello, .json_schema = R"({"not": {}})"}, "response_format"},
      {{.messages = kHello, .tools = kWeather, .json_object = true}, "response_format"},
      {{.messages = kHello, .variables = "[]"}, "chat_template_kwargs"},
  };
  for (const auto& [request, field] : cases) {
    const Result<ChatPrompt> prompt = form->apply(request);
    ASSERT_FALSE(prompt.ok()) << field;
    EXPECT_EQ(prompt.status().message().substr(0, field.size()), field)
        << prompt.status().message();
  }
  const auto raising = open(
      "{{ messages[0].content }}{% if messages[1] %}"
      "{{ raise_exception('one message only') }}{% endif %}");
  const Status raised = raising
                            ->apply({.messages = R"([{"role": "user", "content": "a"},
      {"role": "user", "content": "b"}])"})
                            .status();
  EXPECT_EQ(raised.message(), "messages: one message only");
}

// Of a tool that is not strict, what no grammar enforces binds nothing, and is shown all the same.
TEST_F(ChatTest, LooseToolsAreTakenAsTheyAre) {
  NEED_FULL_TEMPLATES();
  const auto form = open(kToolForm);
  const ChatPrompt prompt =
      applied(*form, {.messages = kHello, .tools = R"([{"type": "function", "function":
      {"name": "f", "parameters": {"type": "object", "properties":
      {"mail": {"type": "string", "pattern": "^(?=x)y$"}}}}}])"});
  EXPECT_NE(prompt.text.find("^(?=x)y$"), std::string::npos);
  const Result<ChatAnswer> answer = prompt.reader->read(
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"mail\": \"y\"}}\n</tool_call>", false);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->tool_calls.size(), 1u);
}

TEST_F(ChatTest, HostileTemplatesEnd) {
  NEED_FULL_TEMPLATES();
  const auto nested = [](const char* open, const char* close, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += open;
    for (int i = 0; i < times; ++i) text += close;
    return text;
  };
  const auto repeated = [](const std::string& part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  const std::string forms[] = {
      "{% for a in range(1000000000) %}x{% endfor %}",
      "{% for a in range(3000) %}{% for b in range(3000) %}{% for c in range(3000) %}x"
      "{% endfor %}{% endfor %}{% endfor %}",
      "{{ 'x' * 1000000000000 }}",
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}"
      "{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
      "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = ns.a + ns.a %}"
      "{% endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% set ns = namespace(a=[]) %}{% for i in range(150000) %}{% set ns.a = [ns.a] %}"
      "{% endfor %}",
      "{% set a = [] %}{% set b = a.append(a) %}{{ a | string }}",
      "{% set a = [] %}{% set b = a.append(a) %}{{ a | tojson }}",
      "{% set t = (1, 2) %}" + repeated("{% set t = (t, t) %}", 60) + "{{ t == t }}",
      "{{ 5 is divisibleby(0) }}",
      "{{ 'x' | indent(9000000000) }}",
      "{{ [1] | tojson(indent=2000000000) }}",
      "{{ " + nested("(", ")", 20'000) + " }}",
      "{{ " + repeated("- ", 50'000) + "1 }}",
      "{{ " + repeated("not ", 30'000) + "1 }}",
      "{{ 1" + repeated("+1", 60'000) + " }}",
      nested("{% if 1 %}", "{% endif %}", 5'000),
      "{% if 0 %}" + repeated("{% elif 0 %}", 10'000) + "{% endif %}",
      "{{ a" + repeated("()", 60'000) + " }}",
      "{{ '" + std::string(60'000, 'a') + "' | replace('a', '" + std::string(60'000, 'b') + "') }}",
      "{% for",
      "{{ '\\",
      "{#",
      std::string("{{ 1 }}\0{{ 2 }}", 15),
  };
  const auto small = open("{{ messages[0].content }}");
  for (const std::string& form : forms) {
    SCOPED_TRACE(form.substr(0, 80));
    auto opened = try_open(form);
    if (opened.ok()) {
      const Result<ChatPrompt> prompt = (*opened)->apply({.messages = kHello});
      EXPECT_TRUE(prompt.ok() || !prompt.status().message().empty());
      if (prompt.ok()) {
        EXPECT_LT(prompt->text.size(), std::size_t{1} << 30);
      }
    } else {
      EXPECT_FALSE(opened.status().message().empty());
      EXPECT_EQ(opened.status().message().find('\n'), std::string::npos);
    }
    // And nothing of it stays behind.
    EXPECT_EQ(applied(*small, {.messages = kHello}).text, "hello");
  }
}

TEST_F(ChatTest, HostileMessagesEnd) {
  NEED_FULL_TEMPLATES();
  const auto form = open(
      "{% for m in messages %}{{ m.content.split('</think>')[-1] | trim | replace('a', 'bb') }}"
      "{% endfor %}");
  std::string thoughts;
  for (int i = 0; i < 100'000; ++i) thoughts += "</think>";
  const auto with = [](const std::string& content) {
    const std::pair<std::string, std::string> message[] = {{"user", content}};
    return ChatRequest{.messages = model::chat_messages(message)};
  };
  // Linear, so it is done.
  EXPECT_EQ(applied(*form, with("x" + thoughts + "aya")).text, "bbybb");
  EXPECT_EQ(applied(*form, with(std::string(2'000'000, 'a'))).text.size(), 4'000'000u);
  EXPECT_FALSE(form->apply(with(std::string(17u << 20, 'a'))).ok()) << "over the limit";

  std::string many = "[";
  for (int i = 0; i < 20'000; ++i) many += R"({"role": "user", "content": ""},)";
  many.back() = ']';
  const Result<ChatPrompt> crowd = form->apply({.messages = many});
  EXPECT_TRUE(crowd.ok() || crowd.status().message().substr(0, 9) == "messages:");
  // Bytes that are no text become the replacement character.
  EXPECT_EQ(applied(*form, with("\xff")).text, "\xef\xbf\xbd");
}

TEST_F(ChatTest, HostileAnswersEnd) {
  NEED_FULL_TEMPLATES();
  const auto form = open(kToolForm);
  const ChatPrompt prompt = applied(*form, {.messages = kHello, .tools = kWeather});
  const std::string head = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": ";
  for (const std::string& tail :
       {std::string(200'000, '['), std::string(200'000, '{'), std::string(200'000, '"'),
        std::string("\xff\xfe"), std::string("\"\\u12"), std::string(1'000'000, ' ')}) {
    for (const bool partial : {true, false}) {
      const Result<ChatAnswer> answer = prompt.reader->read(head + tail, partial);
      EXPECT_TRUE(answer.ok() || answer.status().message().substr(0, 7) == "answer:")
          << answer.status().message();
    }
  }
  EXPECT_TRUE(prompt.reader->read("still there", true).ok());
}

}  // namespace
}  // namespace quire
