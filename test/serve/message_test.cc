// Goal: what clients are told piece by piece is what they are told at once, in OpenAI's shapes, and
//   nothing said is taken back.
// Method: a reader of a small language written here: "{NAME ARGUMENTS}" is a call, "<...>" what the
//   model thinks, all else content; answers cut at every byte.

#include "serve/message.h"

#include <gtest/gtest.h>

#include "serve/http_client.h"
#include "serve/openai_answer.h"

namespace quire::serve {
namespace {

using nlohmann::json;

class SmallReader final : public model::AnswerReader {
 public:
  Result<model::ChatAnswer> read(std::string_view text, bool partial) const override {
    model::ChatAnswer answer;
    std::string* into = &answer.content;
    for (const char c : text) {
      if (c == '!') return Status(Code::kInvalidArgument, "answer: no '!' here");
      if (c == '<') {
        into = &answer.reasoning;
      } else if (c == '>' || c == '}') {
        into = &answer.content;
      } else if (c == '{') {
        into = &answer.tool_calls.emplace_back().name;
      } else if (c == ' ' && !answer.tool_calls.empty() && into == &answer.tool_calls.back().name) {
        into = &answer.tool_calls.back().arguments;
      } else {
        *into += c;
      }
    }
    if (!partial && into != &answer.content) {
      return Status(Code::kInvalidArgument, "answer: not whole");
    }
    return answer;
  }
};

const auto kReader = std::make_shared<SmallReader>();
const AnswerHead kHead{.id = "1", .model = "m", .reader = kReader};
constexpr char kText[] = "<so>Let me see{weather Oslo, Bergen}{stop }";

engine::Answer answer_of(const std::string& text, engine::Finish finish) {
  return {.text = text, .finish = finish};
}

TEST(Message, IsTakenApart) {
  const Message message = read_message(kReader.get(), kText, true, "call_");
  EXPECT_EQ(message.said.content, "Let me see");
  EXPECT_EQ(message.said.reasoning, "so");
  ASSERT_EQ(message.said.tool_calls.size(), 2u);
  EXPECT_EQ(message.said.tool_calls[0].id, "call_0");
  EXPECT_EQ(message.said.tool_calls[0].arguments, "Oslo, Bergen");
  EXPECT_EQ(message.said.tool_calls[1].arguments, "{}") << "clients parse it";
  EXPECT_TRUE(message.calls());
}

TEST(Message, OfAnAnswerThatWasCutIsWhatThereIs) {
  const Message cut = read_message(kReader.get(), "a{weather Os", false, "c");
  EXPECT_EQ(cut.said.tool_calls[0].arguments, "Os");
  EXPECT_FALSE(cut.calls());
  const Message by_stop_text = read_message(kReader.get(), "a{weather Os", true, "c");
  EXPECT_EQ(by_stop_text.said.tool_calls[0].arguments, "Os");
  EXPECT_FALSE(by_stop_text.calls()) << "half a call is none to make";
  EXPECT_EQ(read_message(kReader.get(), "a{!", true, "c").said.content, "a{!");
  EXPECT_EQ(read_message(nullptr, "a{b c}", true, "c").said.content, "a{b c}");
}

TEST(Message, WholeInOpenAisShape) {
  const std::vector<Choice> choices = {{.answer = answer_of(kText, engine::Finish::kStop)},
                                       {.answer = answer_of("{f x}", engine::Finish::kStop)},
                                       {.answer = answer_of("{f x", engine::Finish::kLength)}};
  const json body = completion_json(kHead, choices);
  const json& first = body["choices"][0];
  EXPECT_EQ(first["finish_reason"], "tool_calls");
  EXPECT_EQ(first["message"]["content"], "Let me see");
  EXPECT_EQ(first["message"]["reasoning_content"], "so");
  EXPECT_EQ(first["message"]["tool_calls"][0],
            json({{"id", "call_1_0_0"},
                  {"type", "function"},
                  {"function", {{"name", "weather"}, {"arguments", "Oslo, Bergen"}}}}));
  EXPECT_EQ(body["choices"][1]["message"]["content"], nullptr);
  EXPECT_NE(body["choices"][1]["message"]["tool_calls"][0]["id"], "call_1_0_0");
  EXPECT_EQ(body["choices"][2]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][2]["message"]["tool_calls"][0]["function"]["arguments"], "x");
}

TEST(Message, StreamedIsTheSameHoweverItIsCut) {
  const std::string text = kText;
  const std::vector<Choice> choices = {{.answer = answer_of(text, engine::Finish::kStop)}};
  const json whole = json(completion_json(kHead, choices))["choices"][0]["message"];
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    AnswerEvents events(kHead, 1, false, false);
    std::string body;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      body += events.piece({.text = text.substr(at, piece)});
    }
    body += events.piece({.ended = true, .answer = answer_of(text, engine::Finish::kStop)});
    const test::Events read(body + events.end());
    EXPECT_EQ(read.text(), whole["content"]) << piece;
    EXPECT_EQ(read.calls(), whole["tool_calls"]) << piece;
    EXPECT_EQ(read.finish(), "tool_calls");
    EXPECT_EQ(read.chunks[0]["choices"][0]["delta"]["role"], "assistant");
    std::string thought;
    for (const json& chunk : read.chunks) {
      thought += chunk["choices"][0]["delta"].value("reasoning_content", "");
    }
    EXPECT_EQ(thought, "so");
  }
}

TEST(Message, ACallBeginsWithItsNameAndNoContent) {
  AnswerEvents events(kHead, 1, false, false);
  const test::Events read(events.piece({.text = "{weather O"}));
  ASSERT_EQ(read.chunks.size(), 2u);
  EXPECT_EQ(read.chunks[0]["choices"][0]["delta"],
            json({{"role", "assistant"},
                  {"content", nullptr},
                  {"tool_calls",
                   {{{"index", 0},
                     {"id", "call_1_0_0"},
                     {"type", "function"},
                     {"function", {{"name", "weather"}, {"arguments", ""}}}}}}}));
  EXPECT_EQ(read.chunks[1]["choices"][0]["delta"],
            json({{"tool_calls", {{{"index", 0}, {"function", {{"arguments", "O"}}}}}}}));
  EXPECT_EQ(events.piece({.text = ""}), "");
}

TEST(Message, AnEndThatTakesBackIsAnError) {
  class Fickle final : public model::AnswerReader {
    Result<model::ChatAnswer> read(std::string_view text, bool partial) const override {
      return model::ChatAnswer{.content = partial ? std::string(text) : "other"};
    }
  };
  AnswerHead head = kHead;
  head.reader = std::make_shared<Fickle>();
  AnswerEvents events(head, 1, false, false);
  std::string body = events.piece({.text = "said"});
  body += events.piece({.ended = true, .answer = answer_of("said", engine::Finish::kStop)});
  const test::Events read(body + events.end());
  EXPECT_EQ(read.text(), "said");
  EXPECT_EQ(read.finish(), "error");
  EXPECT_TRUE(read.chunks.back()["error"]["message"].get<std::string>().starts_with("answer: "));
}

TEST(Message, ALongAnswerIsReadAsOftenAsItPays) {
  class Counting final : public model::AnswerReader {
   public:
    mutable std::size_t bytes = 0;
    Result<model::ChatAnswer> read(std::string_view text, bool) const override {
      bytes += text.size();
      return model::ChatAnswer{.content = std::string(text)};
    }
  };
  const auto counting = std::make_shared<Counting>();
  MessageStream stream(counting, "c");
  const std::size_t length = 100'000;
  std::string said;
  for (std::size_t i = 0; i < length; ++i) said += stream.push("x").content;
  EXPECT_GT(said.size(), length - length / 300);
  said += stream.finish(true)->content;
  EXPECT_EQ(said, std::string(length, 'x'));
  EXPECT_LT(counting->bytes, 500 * length) << "not its square";
}

}  // namespace
}  // namespace quire::serve
