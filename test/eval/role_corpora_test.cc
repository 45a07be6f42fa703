// Goal: made texts are of the form they are called, the same for a seed on every machine.
// Method: what the scanners see in them; JSON read by a real parser; a fixed sentence per text.
#include "eval/role_corpora.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "eval/role_tree.h"
#include "roles/roles.h"

namespace quire::eval {
namespace {

const std::vector<std::string> kProse = {"It was a quiet day, he said. ", "\"Where?\" she asked. ",
                                         "Nobody knew: the river was old. "};

std::string made(Corpus corpus, Corpus form, std::uint64_t seed) {
  return corpus_text({corpus, form, 4000}, Stream(seed), kProse);
}

double share(const std::string& text, Role role) {
  const std::vector<Role> roles = roles::label_text(text);
  return static_cast<double>(std::ranges::count(roles, role)) / static_cast<double>(text.size());
}

TEST(RoleCorpora, AreOfTheirForm) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const Corpus corpus :
         {Corpus::kJson, Corpus::kJsonCompact, Corpus::kXml, Corpus::kTable}) {
      const std::string text = made(corpus, corpus, seed);
      EXPECT_GE(text.size(), 4000u);
      EXPECT_LT(share(text, Role::kProse), 0.2) << name_of(corpus) << seed << '\n' << text;
      EXPECT_GT(share(text, Role::kValue), 0.1) << name_of(corpus) << seed << '\n' << text;
      const bool table = corpus == Corpus::kTable;
      EXPECT_EQ(share(text, Role::kHeader) > 0, table) << name_of(corpus) << seed;
      EXPECT_EQ(share(text, Role::kKey) > 0, !table) << name_of(corpus) << seed;
    }
    const std::string prose = made(Corpus::kMixed, Corpus::kMixed, seed);
    EXPECT_EQ(share(prose, Role::kProse), 1) << prose;
    const std::string mixed = made(Corpus::kMixed, Corpus::kJson, seed);
    EXPECT_GT(share(mixed, Role::kProse), 0.02) << mixed;
    EXPECT_GT(share(mixed, Role::kKey), 0.02) << mixed;
  }
}

TEST(RoleCorpora, ASeedIsAText) {
  for (std::size_t c = 0; c < kCorpora; ++c) {
    const auto corpus = static_cast<Corpus>(c);
    EXPECT_EQ(made(corpus, corpus, 3), made(corpus, corpus, 3));
    EXPECT_NE(made(corpus, corpus, 3), made(corpus, corpus, 4));
  }
}

TEST(RoleTree, IsJsonAndTheSameTreeInEveryIndent) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Stream stream(seed);
    Draws draws(stream);
    Wording wording(draws, kProse);
    const Node node = tree(draws, wording);
    const auto compact = nlohmann::json::parse(json_text(node, 0), nullptr, false);
    ASSERT_FALSE(compact.is_discarded()) << json_text(node, 0);
    EXPECT_EQ(compact, nlohmann::json::parse(json_text(node, 4)));
    EXPECT_EQ(json_text(node, 0).find('\n'), std::string::npos);
  }
}

TEST(RoleTree, IsWrittenAsItIs) {
  using enum Node::Kind;
  const Node node{
      .kind = kObject,
      .inner = {{.kind = kText, .name = "a", .text = "x \"y\""},
                {.kind = kList,
                 .name = "b",
                 .inner = {{.kind = kLiteral, .text = "1"}, {.kind = kLiteral, .text = "true"}}}}};
  EXPECT_EQ(json_text(node, 0), R"({"a":"x \"y\"","b":[1,true]})");
  EXPECT_EQ(json_text(node, 2),
            "{\n  \"a\": \"x \\\"y\\\"\",\n  \"b\": [\n    1,\n    true\n  ]\n}");
  EXPECT_EQ(xml_text(node, false),
            "<records>\n  <a>x &quot;y&quot;</a>\n  <b>\n    <item>1</item>\n"
            "    <item>true</item>\n  </b>\n</records>\n");
  EXPECT_EQ(xml_text(node, true),
            "<records a=\"x &quot;y&quot;\">\n  <b>\n    <item>1</item>\n"
            "    <item>true</item>\n  </b>\n</records>\n");
}

}  // namespace
}  // namespace quire::eval
