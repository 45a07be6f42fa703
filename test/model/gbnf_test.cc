// Goal: what passes the check is what libllama's parser takes, so that it never writes a grammar of
//   a stranger's to stderr; what does not is refused by line and reason.
// Method: texts written here; random mutations of them, each of which passes here only if libllama
//   takes it without a word.

#include "model/gbnf.h"

#include <gtest/gtest.h>

#include <random>

#include "llama-cpp.h"
#include "llama.h"
#include "model/text.h"
#include "support/seed.h"

namespace quire::model {
namespace {

constexpr const char* kGood[] = {
    "root ::= \"a\"",
    "# first\n root   ::= one | two-2 # or\n\none ::= \"x\" "
    "\"\\\"\\n\\x41\\u20AC\"\r\ntwo-2::=[^a-z\\]]",
    "root ::= ( \"a\"\n  | b )* \"c\"{2} \"d\"{2,} (\"e\" \"f\"?)+ .{1,3}\nb ::= \"\\U0001F600\" | "
    "\"\xE2\x82\xAC\" | ",
    "root ::= [a-zA-Z0-9_-]{1,200} <[7]> !<[12]> [-x] [x-]\n",
    "\n\nroot ::= r\nr ::= \"(\" r \")\" | \"\"",
};

bool no_token(std::string_view) {
  return false;
}

std::string fault(const std::string& text) {
  return check_gbnf(text, {}, no_token).message();
}

TEST(Gbnf, WhatIsGoodPasses) {
  for (const char* const text : kGood) EXPECT_EQ(fault(text), "") << text;
  EXPECT_TRUE(check_gbnf("root ::= <think> [a]", {}).ok()) << "nobody knows the tokens";
}

TEST(Gbnf, FaultsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "grammar: there is no rule 'root'"},
      {"a ::= \"x\"", "grammar: there is no rule 'root'"},
      {"root ::= b", "grammar: rule 'b' is not defined"},
      {"root ::= \"a\"\n_b ::= \"c\"", "grammar: line 2: a rule begins with its name"},
      {"root := \"a\"", "grammar: line 1: ::= is missing behind 'root'"},
      {"root ::= \"a\n", "grammar: line 2: the end, inside of a text or a class"},
      {"root ::= \"\\q\"", "grammar: line 1: no escape: \\q"},
      {"root ::= \"\\u12G4\"", "grammar: line 1: 4 hexadecimal digits follow this"},
      {"root ::= [a-", "grammar: line 1: the end, inside of"},
      {"root ::= (\"a\"", "grammar: line 1: ( without its )"},
      {"root ::= \"a\")", "grammar: line 1: ')' begins nothing here"},
      {"root ::= *", "grammar: line 1: nothing to repeat before this"},
      {"root ::= \"a\" | +", "grammar: line 1: nothing to repeat before this"},
      {"root ::= \"a\"{x}", "grammar: line 1: a number follows {"},
      {"root ::= \"a\"{0}*", "grammar: a repetition of a repetition"},
      {"root ::= (\"a\"{0,200} \"b\"){200}", "grammar: a repetition of too much at once"},
      {"root ::= <x", "grammar: line 1: a token is <text> or <[id]>"},
      {"root ::= <x>", "grammar: line 1: '<x>' is not one token"},
      {"root ::= <[x]>", "grammar: line 1: the id of a token is a number"},
      {"root ::= \"a\"\n\n\"b\"", "grammar: line 3: a rule begins with its name"},
  };
  for (const auto& [text, why] : cases) {
    EXPECT_EQ(fault(text).substr(0, std::string(why).size()), why) << text;
  }
}

// `rules` rules, each of which begins with the next one, twice.
std::string doubled(int rules, const std::string& form, const std::string& last) {
  std::string text = "root ::= a0\n";
  for (int i = 0; i < rules; ++i) {
    std::string rule = "a" + std::to_string(i) + " ::= " + form + "\n";
    for (std::size_t at = 0; (at = rule.find('@')) != std::string::npos;) {
      rule.replace(at, 1, "a" + std::to_string(i + 1));
    }
    text += rule;
  }
  return text + "a" + std::to_string(rules) + " ::= " + last;
}

// libllama walks through each way, some of them before it can say no.
TEST(Gbnf, RulesThatBeginInTooManyWaysAreRefused) {
  const std::string why = "grammar: rule 'a0' can begin in too many ways";
  for (const char* const form :
       {"@ | @", "@ \"x\" | @ \"y\"", "(@ | @) \"x\"", "@? @", "@{2} | @{3}"}) {
    for (const char* const last : {"\"z\"", "\"z\" | \"\"", "[a-z]*", ""}) {
      EXPECT_EQ(fault(doubled(40, form, last)), why) << form << " " << last;
      EXPECT_EQ(fault(doubled(2, form, last)), "") << form << " " << last;
    }
  }
  EXPECT_EQ(fault("root ::= \"x\" (a0 | a0)\n" + doubled(12, "@ | @", "\"z\"").substr(12)),
            "grammar: rule 'root' can begin in too many ways");
  EXPECT_EQ(fault(doubled(500, "@ \"x\"", "\"z\"")), "") << "deep is not wide";
}

// libllama finds those alone that begin with themselves at once, or behind a rule with an empty
// alternative of its own.
TEST(Gbnf, RulesThatBeginWithThemselvesAreRefused) {
  const std::string why = "grammar: rule 'r' begins with itself";
  for (const std::string text :
       {"r ::= r \"a\" | \"b\"", "r ::= e r \"a\" | \"b\"\ne ::= f\nf ::= \"\" | \"c\"",
        "r ::= (\"c\"?)? [x]* r \"a\" | \"b\"", "r ::= s\ns ::= \"x\"{0} (r)"}) {
    EXPECT_EQ(fault("root ::= \"x\" r\n" + text), why) << text;
  }
  for (const std::string text : {"r ::= \"a\" r | \"b\"", "r ::= \"a\"+ r | \"\"",
                                 "r ::= e \"a\" r | \"b\"\ne ::= f\nf ::= \"\" | \"c\""}) {
    EXPECT_EQ(fault("root ::= \"x\" r\n" + text), "") << text;
  }
}

// What libllama's parser writes to stderr of a grammar.
std::string said_by_libllama(const std::string& text) {
  silence_libraries();
  testing::internal::CaptureStderr();
  const llama_sampler_ptr sampler(llama_sampler_init_grammar(nullptr, text.c_str(), "root"));
  return testing::internal::GetCapturedStderr();
}

TEST(Gbnf, LibllamaIsNeverShownWhatItWouldPrint) {
  for (const char* const text : kGood) EXPECT_EQ(said_by_libllama(text), "") << text;
  EXPECT_NE(said_by_libllama("root ::= ("), "") << "then this check may go";
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE("QUIRE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr std::string_view kLetters = "rotab-29\"[]()|*+?{},.\\^:=<>!# \n\rxuU_";
  std::size_t passed = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = kGood[random() % std::size(kGood)];
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      const char letter = kLetters[random() % kLetters.size()];
      if (random() % 3 == 0) {
        text.erase(at, 1);
      } else if (random() % 2 == 0) {
        text.insert(at, 1, letter);
      } else {
        text[at] = letter;
      }
    }
    if (!check_gbnf(text, {}, no_token).ok()) continue;
    ++passed;
    ASSERT_EQ(said_by_libllama(text), "") << text;
  }
  EXPECT_GT(passed, 50u) << "and much is good";
}

}  // namespace
}  // namespace quire::model
