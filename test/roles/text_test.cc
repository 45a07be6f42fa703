// Goal: every structure is found where it stands, in prose, in fences, one a line; prose stays
//   prose; tokens have the highest role of their bytes.
// Method: small texts a reader can check, a letter a byte (test/roles/shown.h); arbitrary bytes.
#include <gtest/gtest.h>

#include <random>

#include "roles/roles.h"
#include "roles/shown.h"
#include "support/seed.h"

namespace quire::roles {
namespace {

std::string shown(std::string_view text) {
  return test::letters(label_text(text));
}

// The parts of one role.
std::vector<std::string> parts(std::string_view text, Role role) {
  std::vector<std::string> found;
  for (const test::Run& run : test::runs(text, label_text(text))) {
    if (run.role == role) found.push_back(run.text);
  }
  return found;
}

using Parts = std::vector<std::string>;

TEST(Text, ADocumentInProse) {
  EXPECT_EQ(shown("See {\"a\": 1} now."), "ppppdkkkd_vd_pppp");
  EXPECT_EQ(shown("{\"a\":1}\n\nWhat is a?"), "dkkkdvd__pppppppppp");
  EXPECT_EQ(shown("x = [\"a\", {\"b\": 2"), "ppppdvvvd_dkkkd_v");
}

TEST(Text, DocumentsOneALine) {
  EXPECT_EQ(shown("{\"a\":1}\n{\"a\":2}\n"), "dkkkdvd_dkkkdvd_");
  EXPECT_EQ(shown("[1,2]\n[3]\n"), "dvdvd_dvd_");
  EXPECT_EQ(
      shown("{\"a\":1,\"b\":2,\"c\":3}\n{\"a\":1,\"b\":2,\"c\":3}\n{\"a\":1,\"b\":2,\"c\":3}"),
      "dkkkdvdkkkdvdkkkdvd_dkkkdvdkkkdvdkkkdvd_dkkkdvdkkkdvdkkkdvd")
      << "and no rows of commas";
}

TEST(Text, BrokenDocumentsEndWhereTheyBreak) {
  EXPECT_EQ(shown("{\"a\": 1 oops} more"), "dkkkd_v_pppppppppp");
  EXPECT_EQ(shown("{\"a\": x, then {\"b\": 1}"), "dkkkd_ppppppppdkkkd_vd");
}

TEST(Text, ProseStaysProse) {
  for (const std::string_view text : {
           "Brackets [as here] and {these} and [1] and a[i] < b, c > d.",
           "if (a) { return b[1]; } else { x = {1, 2}; }",
           "int f(std::vector<int> v) {\n  return v[0] < v[1];\n}\n",
           "One, two, three,\nfour, five, six,\nseven, eight, nine.\n",
           "a|b pipes\nin prose | without a row of dashes\n",
           "[link](target) and ``` no fence ``` here",
           "x < y\n<3\n< b >\n",
           "{\"unfinished\" thoughts}",
       }) {
    EXPECT_EQ(shown(text), std::string(text.size(), 'p')) << text;
  }
}

TEST(Text, Fences) {
  const std::string_view json = "Look:\n```json\n{\"a\": 1}\n3\n```\nDone {\"b\": 2}";
  EXPECT_EQ(parts(json, Role::kKey), (Parts{"\"a\"", "\"b\""}));
  EXPECT_EQ(parts(json, Role::kValue), (Parts{"1", "3", "2"})) << "any value in a fence of JSON";
  EXPECT_EQ(shown("```python\nx = {\"a\": 1}\n```\n"), std::string(27, 'p')) << "code is no data";
  EXPECT_EQ(parts("~~~\n{\"a\": 1}\n~~~~\n[\"b\"]", Role::kValue), (Parts{"1", "\"b\""}));
  EXPECT_EQ(parts("```json\n{\"a\": \"`\"}", Role::kValue), (Parts{"\"`\""})) << "never closed";
  EXPECT_EQ(parts("```csv\na\n\"x\ny\"\n```\n", Role::kValue), (Parts{"\"x\ny\""}));
  EXPECT_EQ(parts("```json\nnot so\n[\"a\"]\n```\n", Role::kValue), (Parts{"\"a\""}));
}

TEST(Text, TablesOfMarkdown) {
  EXPECT_EQ(shown("| a | bc |\n|---|---:|\n| 1 |    |\n|x\\|y|z|\nend\n"),
            "d_h_d_hh_d_"
            "dddddddddd_"
            "d_v_d____d_"
            "dvvvvdvd_"
            "pppp");
  EXPECT_EQ(parts("name | age\n--- | ---\nAnn | 7\n\nprose", Role::kHeader),
            (Parts{"name", "age"}));
  EXPECT_EQ(parts("name | age\n--- | ---\nAnn | 7\n\nprose", Role::kValue), (Parts{"Ann", "7"}));
  EXPECT_TRUE(parts("| a | b |\n|---|\n| 1 | 2 |\n", Role::kValue).empty()) << "cells must agree";
}

TEST(Text, RowsOfSeparators) {
  EXPECT_EQ(shown("a,b,c\n1,\"x,y\",3\r\n4,,6\nend, so\n"),
            "hdhdhd"
            "vdvvvvvdvdd"
            "vddvd"
            "pppppppp");
  EXPECT_EQ(shown("k\tv\na\t1\nb\t2"), "hdhdvdvdvdv");
  EXPECT_EQ(shown("a,b\n1,2\n3,4\n"), std::string(12, 'p')) << "two fields are too little";
  EXPECT_EQ(parts("a;b;c\n1;2;3\n4;5;6\n7;8", Role::kValue),
            (Parts{"1", "2", "3", "4", "5", "6", "7", "8"}))
      << "the last row is cut off";
}

TEST(Text, ATokenHasTheHighestRoleOfItsBytes) {
  const std::vector<Role> bytes = label_text("{\"a\": 1}");  // dkkkd_vd
  const std::vector<std::size_t> ends = {1, 3, 5, 6, 6, 7, 8};
  EXPECT_EQ(test::letters(label_tokens(bytes, ends)), "dkk_pvd");
  EXPECT_EQ(test::letters(label_tokens(bytes, ends, {.delimiters_first = true})), "dkd_pvd");
  EXPECT_TRUE(label_tokens({}, {}).empty());
}

TEST(Text, AnyBytesGetARoleEach) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  const char* const pieces[] = {"{",   "}",     "[",     "]",   "\"",   ":",    ",",
                                "|",   "<a>",   "</a>",  "<",   "\n",   "\\",   "1",
                                "x",   " ",     "|-|\n", "```", "\t",   "<!--", "{\"",
                                "\":", "\n```", "a=\"",  "/>",  "\r\n", "]]>",  "\0"};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::size_t i = random() % 40; i > 0; --i) text += pieces[random() % std::size(pieces)];
    const std::vector<Role> roles = label_text(text);
    ASSERT_EQ(roles.size(), text.size());
    ASSERT_EQ(roles, label_text(text)) << text;
    for (const Role role : roles) ASSERT_LT(static_cast<std::size_t>(role), kRoles);
  }
}

}  // namespace
}  // namespace quire::roles
