// Goal: no grammar reaches libllama's parser that makes it loop, recurse or fill the memory.
// Method: texts written here; the fixed grammar passes its own check.

#include "serve/grammar.h"

#include <gtest/gtest.h>

namespace quire::serve {
namespace {

std::string message(const std::string& text) {
  return check_grammar(text).message();
}

TEST(Grammar, WhatIsUsualPasses) {
  EXPECT_TRUE(check_grammar(json_grammar()).ok()) << message(json_grammar());
  EXPECT_TRUE(check_grammar("root ::= [a-z]+ (\",\" [a-z]{1,8})* # {9999}\n").ok());
  EXPECT_TRUE(check_grammar("root ::= \"{9999}\" [{}()] \"\\\"{9999}\" ( \"x\"{2} ){3,}\n").ok());
}

TEST(Grammar, BombsAreRefused) {
  EXPECT_EQ(message(std::string(60'000, '(')), "grammar: 60000 bytes, over the limit of 16384");
  EXPECT_EQ(message("root ::= " + std::string(65, '(')), "grammar: brackets over 64 deep");
  EXPECT_EQ(message("root ::= \"a"), "grammar: line 1: the end, inside of a text or a class");
  EXPECT_EQ(message("root ::= \"a\"{257}"), "grammar: a repetition of over 256");
  EXPECT_EQ(message("root ::= \"a\"{1,99999999999999999999}"), "grammar: a repetition of over 256");
  EXPECT_EQ(message("root ::= \"a\"{5,2}"), "grammar: a repetition of at most less than at least");
  EXPECT_EQ(message("root ::= \"a\"{200}{200}"),
            "grammar: a repetition of a repetition; put the first in round brackets");
  EXPECT_EQ(message("root ::= \"a\"{200} *"),
            "grammar: a repetition of a repetition; put the first in round brackets");
  EXPECT_EQ(message("root ::= \"a\"{2"), "grammar: { without its }");
  EXPECT_EQ(message(std::string("root\0::= \"a\"", 13)), "grammar: a zero byte");
  EXPECT_EQ(message(""), "grammar: empty");
}

}  // namespace
}  // namespace quire::serve
