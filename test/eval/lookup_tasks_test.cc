// Goal: documents of every form hold each record once, a question's key leads to its answer, solved
// ones are right and not asked again. Method: documents of many seeds are parsed (JSON) or searched
// for what a solved line says.

#include "eval/lookup_tasks.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace quire::eval {
namespace {

const TokenCount kLetters = [](std::string_view text) { return text.size(); };

Document made(Form form, bool nested, std::uint64_t seed, std::size_t tokens = 1500,
              std::uint32_t questions = 8) {
  return lookup_document({form, nested, tokens, questions}, Stream(seed), kLetters);
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

struct Case {
  Form form;
  bool nested;
  std::size_t solved, digits;
};
const Case kCases[] = {
    {Form::kIndented, false, 3, 5}, {Form::kIndented, true, 3, 5}, {Form::kCompact, false, 3, 5},
    {Form::kCompact, true, 3, 5},   {Form::kXml, false, 3, 5},     {Form::kXml, true, 3, 5},
    {Form::kTable, false, 3, 5},    {Form::kTable, true, 3, 5},    {Form::kDictionary, false, 2, 4},
    {Form::kLines, false, 0, 5},    {Form::kKeys, false, 0, 8}};

TEST(Lookup, EveryFormHoldsWhatItsQuestionsAskForOnce) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(testing::Message() << "form " << static_cast<int>(one.form) << one.nested);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Document document = made(one.form, one.nested, seed);
      EXPECT_LE(document.text.size(), 1500u);
      EXPECT_GT(document.text.size(), 1350u);
      ASSERT_EQ(document.questions.size(), 8u);
      EXPECT_TRUE(document.lead.starts_with("\n\n"));
      std::set<std::string> asked;
      for (const Question& question : document.questions) {
        const std::string line = question.prompt + question.answer + question.after;
        EXPECT_EQ(occurrences(document.text, line.substr(0, line.size() - 1)), 1u) << line;
        // "old parrot:" is part of "cold parrot:" as well.
        const std::string begin = one.form == Form::kDictionary ? "\n" : "";
        EXPECT_EQ(occurrences(document.text, begin + question.prompt), 1u) << question.prompt;
        const std::size_t digits = question.answer.find_first_not_of(' ');
        EXPECT_EQ(question.answer.size() - digits, one.digits);
        EXPECT_EQ(occurrences(document.text, question.answer.substr(digits)), 1u);
        EXPECT_EQ(document.lead.find(begin + question.prompt), std::string::npos)
            << "solved already";
        asked.insert(question.prompt);
      }
      EXPECT_EQ(asked.size(), 8u);
      // Every solved line stands in the document, too.
      std::string rest = document.lead.substr(2);
      if (one.form == Form::kDictionary) {
        ASSERT_TRUE(rest.starts_with("Lookup:\n"));
        rest.erase(0, 8);
      }
      std::size_t solved = 0;
      for (std::size_t end = 0; (end = rest.find('\n')) != std::string::npos; ++solved) {
        EXPECT_EQ(occurrences(document.text, rest.substr(0, end)), 1u) << rest;
        rest.erase(0, end + 1);
      }
      EXPECT_TRUE(rest.empty());
      EXPECT_EQ(solved, one.solved);
    }
  }
}

TEST(Lookup, JsonParsesAndGroupsHoldTenAtMost) {
  for (const Form form : {Form::kIndented, Form::kCompact}) {
    for (const bool nested : {false, true}) {
      const Document document = made(form, nested, 4);
      const nlohmann::json object = nlohmann::json::parse(document.text);
      std::set<std::string> keys;
      for (const auto& [key, value] : object.items()) {
        if (!nested) {
          keys.insert(key);
          continue;
        }
        EXPECT_LE(value.size(), 10u);
        for (const auto& [inner, number] : value.items()) {
          EXPECT_TRUE(number.is_number());
          keys.insert(inner);
        }
      }
      EXPECT_GE(keys.size(), 40u);
      EXPECT_EQ(keys.size(), occurrences(document.text, "\":") - (nested ? object.size() : 0));
    }
  }
}

TEST(Lookup, XmlClosesWhatItOpens) {
  const std::string text = made(Form::kXml, true, 9).text;
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos; ++at) {
    const std::size_t end = text.find('>', at);
    const std::string name = text.substr(at + 1, end - at - 1);
    if (name[0] != '/') {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty());
    EXPECT_EQ("/" + open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

TEST(Lookup, TablesHaveOneShapeOfRow) {
  for (const bool nested : {false, true}) {
    const std::string text = made(Form::kTable, nested, 3).text + "\n";
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
         at = end + 1) {
      const std::string row = text.substr(at, end - at);
      EXPECT_EQ(std::count(row.begin(), row.end(), '|'), nested ? 4 : 3) << row;
    }
  }
}

TEST(Lookup, KeysAreNearIdentical) {
  for (const Question& question : made(Form::kKeys, false, 1).questions) {
    EXPECT_EQ(question.prompt.size(), 18u);
    EXPECT_EQ(question.prompt.find_first_not_of("0123456789abcdef"), 16u);
  }
}

TEST(Lookup, DependsOnTheSeedAlone) {
  for (const Case& one : kCases) {
    EXPECT_EQ(made(one.form, one.nested, 7).text, made(one.form, one.nested, 7).text);
    EXPECT_NE(made(one.form, one.nested, 7).text, made(one.form, one.nested, 8).text);
  }
}

TEST(Lookup, KeysCanBeAskedFor) {
  const auto asked = [](Asks asks) {
    return lookup_document({.tokens = 1500, .questions = 6, .asks = asks}, Stream(3), kLetters);
  };
  const Document which = asked(Asks::kKey);
  const nlohmann::ordered_json object = nlohmann::ordered_json::parse(which.text);
  ASSERT_EQ(which.questions.size(), 6u);
  for (const Question& question : which.questions) {
    // 60231: "loud_parrot"
    const std::string key = question.answer.substr(2, question.answer.size() - 3);
    ASSERT_TRUE(object.contains(key)) << question.answer;
    EXPECT_EQ(object.at(key).dump() + ":", question.prompt);
  }
  EXPECT_EQ(std::count(which.lead.begin(), which.lead.end(), '\n'), 2 + 3);

  const Document list = asked(Asks::kNextKey);
  EXPECT_EQ(list.text, which.text);
  ASSERT_EQ(list.questions.size(), 6u);
  std::string keys;
  std::size_t listed = 0;
  for (const auto& [key, value] : object.items()) {
    if (listed++ < 9) keys += key + "\n";
  }
  const Question& last = list.questions.back();
  EXPECT_EQ(list.lead + last.prompt + last.answer + "\n", "\n\nKeys:\n" + keys);
  EXPECT_EQ(list.questions[0].prompt, "");
}

TEST(Lookup, ShortDocumentsAskFewerQuestions) {
  const Document document = made(Form::kIndented, false, 1, 10);
  EXPECT_EQ(nlohmann::json::parse(document.text).size(), 4u) << "three solved and one to ask";
  EXPECT_EQ(document.questions.size(), 1u);
  EXPECT_EQ(made(Form::kKeys, false, 1, 10).questions.size(), 1u);
}

}  // namespace
}  // namespace quire::eval
