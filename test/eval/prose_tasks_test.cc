// Goal: prose holds what its questions ask for, once, in order and at spread depths; chains lead
// back to their number; a drift quotes its documents word for word. Method: generated documents of
// many seeds are searched.

#include "eval/prose_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace quire::eval {
namespace {

std::size_t words(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), ' '));
}
const TokenCount& count() {
  static const TokenCount counting = words;
  return counting;
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

Prose prose(std::size_t first, std::size_t tokens) {
  return {filler(), first, tokens, count()};
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
    const Document document = needle_document(prose(seed, 400), 4, {}, Stream(seed));
    ASSERT_EQ(document.questions.size(), 4u);
    EXPECT_EQ(document.lead, "\n\n");
    std::set<std::string> things;
    std::size_t last = 0;
    for (const Question& question : document.questions) {
      ASSERT_TRUE(question.prompt.starts_with("The special magic number for "));
      EXPECT_TRUE(question.prompt.ends_with(" is"));
      const std::string fact = question.prompt + question.answer + ".";
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

TEST(Needle, ASingleOneLiesAtItsDepth) {
  for (const double depth : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const Document document = needle_document(prose(1, 600), 1, depth, Stream(2));
    ASSERT_EQ(document.questions.size(), 1u);
    const auto at = static_cast<double>(document.text.find(document.questions[0].prompt));
    EXPECT_NEAR(at / static_cast<double>(document.text.size()), depth, 0.05) << depth;
  }
}

TEST(Needle, DependsOnTheSeedAlone) {
  const Document a = needle_document(prose(3, 300), 2, {}, Stream(7));
  const Document b = needle_document(prose(3, 300), 2, {}, Stream(7));
  const Document c = needle_document(prose(3, 300), 2, {}, Stream(8));
  EXPECT_EQ(a.text, b.text);
  EXPECT_NE(a.text, c.text);
}

// Follows assignments as a reader would: "VAR b = VAR a" is what "VAR a" was.
TEST(Needle, NumbersHaveAsManyDigitsAsAskedFor) {
  for (const std::uint32_t digits : {1u, 2u, 5u, 9u, 16u}) {
    Prose of = prose(4, 500);
    of.digits = digits;
    const Document document = needle_document(of, needles_most(digits), {}, Stream(digits));
    std::set<std::string> answers;
    for (const Question& question : document.questions) {
      EXPECT_EQ(question.answer.size(), 1 + digits);
      EXPECT_EQ(occurrences(document.text, question.prompt + question.answer + ". "), 1u);
      answers.insert(question.answer);
    }
    EXPECT_EQ(answers.size(), needles_most(digits));
  }
}

TEST(Chain, TheAnswerFollowsTheAssignmentsBackToTheNumber) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Document document = chain_document(prose(seed, 500), 4, Stream(seed));
    ASSERT_EQ(document.questions.size(), 3u) << "one of four is solved";
    std::vector<Question> all = document.questions;
    const std::size_t border = document.lead.find(" =") + 2;
    all.push_back({document.lead.substr(2, border - 2),
                   document.lead.substr(border, document.lead.size() - 1 - border)});
    for (const Question& question : all) {
      std::string name = question.prompt.substr(0, question.prompt.size() - 2), path;
      std::size_t before = document.text.size();
      for (int hop = 0; hop < 4; ++hop) {
        const std::string begin = name + " =";
        ASSERT_EQ(occurrences(document.text, begin), 1u) << begin;
        const std::size_t at = document.text.find(begin);
        EXPECT_LT(at, before) << "what it refers to stands before it";
        before = at;
        const std::size_t value = at + begin.size();
        name = document.text.substr(value + 1, document.text.find('.', value) - value - 1);
        path += (hop == 0 ? " " : " = ") + name;
      }
      EXPECT_EQ(path, question.answer);
      EXPECT_EQ(name.find_first_not_of("0123456789"), std::string::npos) << name;
    }
  }
}

// The text under each heading, in order.
std::vector<std::string> under(const std::string& text, const std::string& heading) {
  std::vector<std::string> found;
  for (std::size_t at = 0; (at = text.find(heading, at)) != std::string::npos;) {
    const std::size_t begin = text.find('\n', at) + 1, end = text.find("\n\n", begin);
    found.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
    at = begin;
  }
  return found;
}

TEST(Drift, QuotesOneTwoThreeAndThenOneAgainFromWhereItStopped) {
  const Document document = drift_document(prose(0, 600));
  const std::vector<std::string> documents = under(document.text, "Document ");
  const std::vector<std::string> quotes = under(document.continuation, "From document ");
  ASSERT_EQ(documents.size(), 3u);
  ASSERT_EQ(quotes.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(documents[i].starts_with(quotes[i])) << "document " << i + 1;
    EXPECT_LT(quotes[i].size(), documents[i].size() / 2);
    for (std::size_t other = 0; other < i; ++other) EXPECT_NE(documents[i], documents[other]);
  }
  EXPECT_TRUE(quotes[3].empty()) << "the heading alone: the quote is what is scored";
  ASSERT_FALSE(document.scored.empty());
  const std::size_t at = documents[0].find(document.scored);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(at, quotes[0].size() + 1) << "behind the blank or line break";
  EXPECT_EQ(drift_document(prose(0, 600)).text, document.text);
  EXPECT_NE(drift_document(prose(1, 600)).text, document.text);
}

}  // namespace
}  // namespace quire::eval
