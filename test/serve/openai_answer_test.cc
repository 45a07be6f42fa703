// Goal: events together are the whole answer, and both have OpenAI's shapes.
// Method: answers written here.

#include "serve/openai_answer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/fake_model.h"
#include "serve/http_client.h"

namespace quire::serve {
namespace {

engine::Answer answer_of(const std::string& text, engine::Finish finish) {
  engine::Answer answer{.text = text, .finish = finish, .prompt_tokens = 7};
  answer.completion_tokens = static_cast<std::uint32_t>(text.size());
  answer.kv.cached_tokens = 4;
  return answer;
}

const AnswerHead kHead{.id = "1", .model = "m", .created = 9, .fingerprint = "quire-x"};

TEST(OpenAiAnswer, AWholeChat) {
  const std::vector<Choice> choices = {{.answer = answer_of("yes", engine::Finish::kStop)},
                                       {.answer = answer_of("no!!", engine::Finish::kLength)}};
  const auto body = completion_json(kHead, choices);
  EXPECT_EQ(body["id"], "chatcmpl-1");
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["system_fingerprint"], "quire-x");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "yes");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][1]["kv"]["cached_tokens"], 4);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 7) << "the prompt counts once";
  EXPECT_EQ(body["usage"]["completion_tokens"], 7);
  EXPECT_EQ(body["usage"]["total_tokens"], 14);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
  EXPECT_EQ(body["timings"]["prompt_n"], 3);
}

TEST(OpenAiAnswer, EventsAreTheAnswerInPieces) {
  AnswerEvents events(kHead, 2, true, false);
  std::string body = events.piece({.choice = 1, .text = "n"});
  body += events.piece({.choice = 0, .text = "ye"});
  body += events.piece({.choice = 0, .text = ""});
  body += events.piece(
      {.choice = 0, .text = "s", .ended = true, .answer = answer_of("yes", engine::Finish::kStop)});
  body += events.piece({.choice = 1,
                        .text = "o",
                        .ended = true,
                        .answer = answer_of("no", engine::Finish::kLength)});
  body += events.end();
  const test::Events read(body);
  EXPECT_TRUE(read.done);
  EXPECT_EQ(read.text(0), "yes");
  EXPECT_EQ(read.text(1), "no");
  EXPECT_EQ(read.finish(0), "stop");
  EXPECT_EQ(read.finish(1), "length");
  ASSERT_EQ(read.chunks.size(), 7u) << "four texts, two ends, the usage";
  EXPECT_EQ(read.chunks[0]["object"], "chat.completion.chunk");
  EXPECT_EQ(read.chunks[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_FALSE(read.chunks[2]["choices"][0]["delta"].contains("role")) << "said before";
  EXPECT_EQ(read.chunks[0]["usage"], nullptr);
  EXPECT_TRUE(read.chunks[6]["choices"].empty());
  EXPECT_EQ(read.chunks[6]["usage"]["completion_tokens"], 5);
  EXPECT_EQ(read.chunks[6]["usage"]["prompt_tokens"], 7);
}

TEST(OpenAiAnswer, AnEmptyAnswerStillHasItsRoleAndReason) {
  AnswerEvents events(kHead, 1, false, false);
  const test::Events read(
      events.piece({.ended = true, .answer = answer_of("", engine::Finish::kStop)}) + events.end());
  ASSERT_EQ(read.chunks.size(), 1u);
  EXPECT_EQ(read.chunks[0]["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(read.finish(), "stop");
  EXPECT_FALSE(read.chunks[0].contains("usage")) << "nobody asked";
}

TEST(OpenAiAnswer, HalfAnAnswerSaysItsError) {
  engine::Answer half = answer_of("ha", engine::Finish::kError);
  half.error = {Code::kNumeric, "the logits are not finite"};
  AnswerEvents events(kHead, 1, false, false);
  const test::Events read(events.piece({.text = "ha", .ended = true, .answer = half}) +
                          events.end());
  EXPECT_EQ(read.text(), "ha");
  EXPECT_EQ(read.finish(), "error");
  EXPECT_EQ(read.chunks.back()["error"]["message"], "the logits are not finite");
}

TEST(Logprobs, AreOfTheModelsOwnDistribution) {
  const test::FakeModel model;
  std::vector<float> logits(test::kVocabulary, 0);
  logits[3] = std::log(2.0f);
  logits[5] = std::log(4.0f);
  logits[7] = -std::numeric_limits<float>::infinity();
  // 45 of weight 1, one of 2, one of 4, one of none.
  const double all = test::kVocabulary - 3 + 2 + 4;
  const TokenLogprob found = logprob_of(model, logits, 3, 3);
  EXPECT_NEAR(found.logprob, std::log(2 / all), 1e-5);
  EXPECT_EQ(found.bytes, model.piece(3, true));
  ASSERT_EQ(found.top.size(), 3u);
  EXPECT_EQ(found.top[0].bytes, model.piece(5, true));
  EXPECT_NEAR(found.top[0].logprob, std::log(4 / all), 1e-5);
  EXPECT_EQ(found.top[1].bytes, model.piece(3, true));
  EXPECT_EQ(found.top[2].bytes, model.piece(0, true)) << "of equals the lower token";
  EXPECT_EQ(logprob_of(model, logits, 7, 0).logprob, -9999) << "JSON has no infinity";
}

TEST(Logprobs, BothShapes) {
  const std::vector<TokenLogprob> tokens = {
      {.bytes = "\xE2\x82", .logprob = -1, .top = {{"\xE2\x82", -1}, {"x", -2}}},
      {.bytes = "\xAC", .logprob = -0.5},
      {.bytes = "ab", .logprob = -0.25}};
  const auto chat = chat_logprobs_json(tokens);
  EXPECT_EQ(chat["content"].size(), 3u);
  EXPECT_EQ(chat["content"][0]["bytes"], nlohmann::ordered_json::array({0xE2, 0x82}));
  EXPECT_EQ(chat["content"][0]["top_logprobs"][1]["logprob"], -2);
  std::size_t offset = 10;
  const auto text = text_logprobs_json(tokens, offset);
  EXPECT_EQ(text["text_offset"], nlohmann::ordered_json::array({10, 11, 11}));
  EXPECT_EQ(text["tokens"][0], "bytes:\\xe2\\x82");
  EXPECT_EQ(text["top_logprobs"][0]["x"], -2);
  EXPECT_EQ(offset, 13u) << "a letter of two tokens is one";
  EXPECT_EQ(text["token_logprobs"], nlohmann::ordered_json::array({-1.0, -0.5, -0.25}));
}

}  // namespace
}  // namespace quire::serve
