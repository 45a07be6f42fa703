// Goal: checkers accept the right answer alone, numbers never repeat. Method: answers written by
// hand; many draws.

#include "eval/tasks.h"

#include <gtest/gtest.h>

#include <set>

namespace quire::eval {
namespace {

TEST(Checker, AcceptsTheNumberAlone) {
  const Question question{.prompt = "x is", .answer = " 48120"};
  for (const char* right : {" 48120", "48120.", "  48120\n and so on", "48120,"}) {
    EXPECT_TRUE(answers(question, right)) << right;
  }
  for (const char* wrong : {"", " 4812", " 481200", " 48121", "is 48120", " 4 8120"}) {
    EXPECT_FALSE(answers(question, wrong)) << wrong;
  }
}

TEST(Checker, AcceptsWholeWordsOnly) {
  const Question question{.prompt = "VAR pear =", .answer = " VAR apple"};
  EXPECT_TRUE(answers(question, " VAR apple"));
  EXPECT_TRUE(answers(question, " VAR apple = 48120"));
  for (const char* wrong : {" VAR apples", " VAR apple2", " VAR appl", " apple"}) {
    EXPECT_FALSE(answers(question, wrong)) << wrong;
  }
  // Behind a sign anything may follow.
  EXPECT_TRUE(answers({.prompt = "", .answer = "a)"}, "a)b"));
  EXPECT_FALSE(answers({.prompt = "", .answer = " "}, " ")) << "no answer at all";
}

TEST(Numbers, HaveTheirLengthAndNeverRepeat) {
  std::set<std::string> used;
  // 900 of three digits there are: all of them are found.
  for (std::uint64_t i = 0; i < 900; ++i) {
    const std::string number = new_number(Stream(3), i, 3, used);
    EXPECT_EQ(number.size(), 3u);
    EXPECT_NE(number[0], '0');
  }
  EXPECT_EQ(used.size(), 900u);
  std::set<std::string> one, other;
  const std::string first = new_number(Stream(3), 5, 8, one);
  EXPECT_EQ(new_number(Stream(3), 5, 8, other), first);
  EXPECT_NE(new_number(Stream(3), 5, 8, other), first) << "it is used";
}

}  // namespace
}  // namespace quire::eval
