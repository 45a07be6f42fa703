// Goal: documents hold what their questions ask for, once, at spread depths, and checkers accept
// the right answer alone. Method: generated documents of many seeds are searched (prose) or parsed
// as JSON and looked up.

#include "eval/tasks.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace quire::eval {
namespace {

std::size_t words(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), ' '));
}

const std::vector<std::string>& filler() {
  static const std::vector<std::string> list = [] {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      text += "The hound number " + std::to_string(i) + " ran over the hill. Did it stop? ";
      if (i % 5 == 4) text += "It rested.\n";
    }
    return sentences(text);
  }();
  return list;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

TEST(Sentences, AddUpToTheTextWithoutEmptyOnes) {
  const std::string text = "One. Two? Three!\n\nFour 4.5 five.\nsix";
  const std::vector<std::string> parts = sentences(text);
  EXPECT_EQ(parts,
            (std::vector<std::string>{"One. ", "Two? ", "Three!\n", "Four 4.5 five.\n", "six"}));
  EXPECT_TRUE(sentences("").empty());
}

TEST(Needle, EachNumberStandsOnceAndTheQuestionIsItsSentence) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Document document = needle_document(filler(), seed, 400, 4, Stream(seed), words);
    ASSERT_EQ(document.questions.size(), 4u);
    std::set<std::string> things;
    std::size_t last = 0;
    for (const Question& question : document.questions) {
      ASSERT_TRUE(question.prompt.starts_with("\n\nThe special magic number for "));
      EXPECT_TRUE(question.prompt.ends_with(" is"));
      const std::string fact = question.prompt.substr(2) + question.answer + ".";
      EXPECT_EQ(occurrences(document.text, fact), 1u) << fact;
      EXPECT_EQ(occurrences(document.text, question.answer.substr(1)), 1u);
      EXPECT_EQ(question.answer.size(), 6u);
      things.insert(question.prompt);
      const std::size_t at = document.text.find(fact);
      EXPECT_GE(at, last);
      last = at;
    }
    EXPECT_EQ(things.size(), 4u);
    EXPECT_NEAR(static_cast<double>(words(document.text)), 400, 20);
    EXPECT_GT(last, document.text.size() / 2) << "the last of four lies in the last quarter";
  }
}

TEST(Needle, DependsOnTheSeedAlone) {
  const Document a = needle_document(filler(), 3, 300, 2, Stream(7), words);
  const Document b = needle_document(filler(), 3, 300, 2, Stream(7), words);
  const Document c = needle_document(filler(), 3, 300, 2, Stream(8), words);
  EXPECT_EQ(a.text, b.text);
  EXPECT_NE(a.text, c.text);
}

void expect_lookups(bool nested) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const auto letters = [](std::string_view text) { return text.size(); };
    const Document document = json_document(1500, 8, nested, Stream(seed), letters);
    EXPECT_LE(document.text.size(), 1500u);
    EXPECT_GT(document.text.size(), 1400u);
    const nlohmann::json object = nlohmann::json::parse(document.text);
    nlohmann::json flat;
    for (const auto& [key, value] : object.items()) {
      if (nested) {
        for (const auto& [inner, number] : value.items()) flat[inner] = number;
      } else {
        flat[key] = value;
      }
    }
    ASSERT_EQ(document.questions.size(), 8u);
    std::set<std::string> asked;
    for (const Question& question : document.questions) {
      // Three solved lines and the key: together they are a JSON object, too.
      std::string lines = question.prompt.substr(2);
      for (std::size_t at = 0; (at = lines.find('\n', at)) != std::string::npos; ++at) {
        lines.insert(at++, ",");
      }
      const nlohmann::json lookups = nlohmann::json::parse("{" + lines + question.answer + "}");
      EXPECT_EQ(lookups.size(), 4u) << "three other keys and the one asked";
      for (const auto& [key, value] : lookups.items()) EXPECT_EQ(flat.at(key), value) << key;
      asked.insert(question.prompt.substr(question.prompt.rfind('\n')));
    }
    EXPECT_EQ(asked.size(), 8u);
  }
}

TEST(JsonLookup, FlatDocumentsAnswerTheirQuestions) {
  expect_lookups(false);
}
TEST(JsonLookup, NestedDocumentsAnswerTheirQuestions) {
  expect_lookups(true);
}

TEST(JsonLookup, ShortDocumentsAskFewerQuestions) {
  const auto letters = [](std::string_view text) { return text.size(); };
  const Document document = json_document(10, 8, false, Stream(1), letters);
  EXPECT_EQ(nlohmann::json::parse(document.text).size(), 4u) << "three solved and one to ask";
  EXPECT_EQ(document.questions.size(), 4u);
}

TEST(Checker, AcceptsTheNumberAlone) {
  const Question question{.prompt = "x is", .answer = " 48120"};
  for (const char* right : {" 48120", "48120.", "  48120\n and so on", "48120,"}) {
    EXPECT_TRUE(answers(question, right)) << right;
  }
  for (const char* wrong : {"", " 4812", " 481200", " 48121", "is 48120", " 4 8120"}) {
    EXPECT_FALSE(answers(question, wrong)) << wrong;
  }
}

}  // namespace
}  // namespace quire::eval
