// Goal: the grammar of a schema takes the texts that the schema allows and no other; what it could
// not enforce, and every bomb, is refused with its place.
// Method: texts fed byte by byte to libllama's grammar over a tiny model's vocabulary, valid and
// invalid ones side by side; patterns against std::regex on random texts.

#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "model/chat.h"
#include "model/grammar_filter.h"
#include "model/model_impl.h"
#include "model/pattern.h"
#include "model/running.h"
#include "model/schema.h"
#include "support/seed.h"
#include "support/tiny_model.h"

namespace quire {
namespace {

class SchemaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!model::has_full_templates()) GTEST_SKIP() << "built without llama-chat";
    ASSERT_TRUE(test::write_tiny_model({}, file_.path()));
    auto loaded = model::Model::load({.path = file_.path(), .threads = 1});
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    model_ = *std::move(loaded);
  }

  const model::Text& text() const { return dynamic_cast<const model::GgufModel&>(*model_).text(); }

  // Whether the grammar allows the whole text, byte by byte, and an end after it.
  bool allows(const std::string& grammar, const std::string& bytes) const {
    auto filter = model::GrammarFilter::create(text(), grammar, {});
    EXPECT_TRUE(filter.ok()) << filter.status().message();
    if (!filter.ok()) return false;
    for (const char byte : bytes) {
      // The tiny model's tokens: three control tokens, then every byte.
      if (!(*filter)->accept(3 + static_cast<unsigned char>(byte))) return false;
    }
    return (*filter)->allows(2);  // </s>
  }

  test::TempFile file_{"schema-test.gguf"};
  std::unique_ptr<model::Model> model_;
};

struct Case {
  const char* schema;
  std::vector<const char*> allowed, forbidden;
};

TEST_F(SchemaTest, GrammarsSayWhatSchemasSay) {
  const Case cases[] = {
      {R"({"type": "object"})", {"{}", R"({"a": [1, null]})"}, {"[]", "1", ""}},
      {R"({"type": "integer", "minimum": 2, "exclusiveMaximum": 12})",
       {"2", "11"},
       {"1", "12", "2.5", "-3"}},
      {R"({"type": ["string", "null"], "maxLength": 2})",
       {"\"ab\"", "null", "\"\""},
       {"\"abc\"", "1"}},
      {R"({"enum": ["a", 1, {"b": null}]})", {"\"a\"", "1", R"({"b":null})"}, {"\"b\"", "2"}},
      {R"({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2})",
       {"[true]", "[true, false]"},
       {"[]", "[true, true, true]", "[1]"}},
      {R"({"type": "array", "prefixItems": [{"type": "null"}, {"type": "integer"}], "items": false})",
       {"[null, 3]"},
       {"[null]", "[3, null]"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
           "required": ["a"], "additionalProperties": false})",
       {R"({"a": 1})", R"({"a": 1, "b": "x"})"},
       {"{}", R"({"b": "x"})", R"({"a": 1, "c": 2})", R"({"a": "1"})"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"x": 1})"},
       {R"({"x": "1"})"}},
      {R"({"$defs": {"tree": {"type": "object", "properties": {"next": {"anyOf": [
           {"$ref": "#/$defs/tree"}, {"type": "null"}]}}, "required": ["next"]}},
           "$ref": "#/$defs/tree"})",
       {R"({"next": null})", R"({"next": {"next": null}})"},
       {"{}", R"({"next": 1})"}},
      {R"({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "boolean"}}})",
       {"true"},
       {"1"}},
      {R"({"allOf": [{"type": "object", "properties": {"a": {"type": "null"}}},
                     {"type": "object", "properties": {"b": {"type": "null"}}}]})",
       {R"({"a": null, "b": null})"},
       {"{}", R"({"a": 1, "b": null})"}},
      {R"({"type": "string", "format": "date"})", {"\"2026-11-30\""}, {"\"2026-13-30\"", "\"x\""}},
      {R"({"type": "string", "pattern": "^\\d{3}-[^x]+$"})",
       {"\"123-a\""},
       {"\"12-a\"", "\"123-x\"", "\"123-\"a\""}},
      {R"({"type": "string", "pattern": "^.*$"})", {"\"any one\""}, {"\"a\"b\"", "\"a\nb\""}},
  };
  for (const Case& one : cases) {
    const Result<std::string> grammar = model::grammar_of_schema(one.schema);
    ASSERT_TRUE(grammar.ok()) << one.schema << "\n" << grammar.status().message();
    for (const char* text : one.allowed) EXPECT_TRUE(allows(*grammar, text)) << one.schema << text;
    for (const char* text : one.forbidden) {
      EXPECT_FALSE(allows(*grammar, text)) << one.schema << " lets through: " << text;
    }
  }
}

TEST_F(SchemaTest, WhatCannotBeEnforcedIsRefusedWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"7", "schema: a schema must be an object"},
      {"{", "schema: not JSON"},
      {R"({"type": "colour"})", "schema: unknown type"},
      {R"({"type": "object", "properties": {"a": {"type": "number", "maximum": 3}}})",
       "schema/properties/a: keyword 'maximum'"},
      {R"({"type": "array", "items": {}, "uniqueItems": true})", "schema: keyword 'uniqueItems'"},
      {R"({"not": {"type": "null"}})", "schema: keyword 'not'"},
      {R"({"type": "string", "pattern": "a"})", "schema: pattern: a pattern without"},
      {R"({"type": "string", "pattern": "^(?!a)$"})", "schema: pattern: a lookaround"},
      {R"({"type": "string", "pattern": "^a$", "minLength": 3})", "schema: only one of"},
      {R"({"type": "string", "maxLength": 3000})", "schema: maxLength must be 0 ... 2000"},
      {R"({"type": "string", "minLength": 3, "maxLength": 2})", "schema: minLength is over"},
      {R"({"type": "integer", "minimum": 3, "maximum": 2})", "schema: no number is within"},
      {R"({"type": "string", "enum": [1]})", "schema: a value that is not of the type"},
      {R"({"type": "object", "properties": {}, "required": ["a"]})", "schema: required names"},
      {R"({"anyOf": []})", "schema: anyOf must be"},
      {R"({"anyOf": [{"type": "null"}], "type": "string"})", "schema: keyword 'type'"},
      {R"({"$ref": "#/a"})", "schema: $ref '#/a' leads nowhere"},
      {R"({"$ref": "http://x"})", "schema: $ref must begin with #/"},
      {R"({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/b"},
           "b": {"$ref": "#/$defs/a"}}})",
       "schema/anyOf/0: $ref leads in a ring"},
      {R"({"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}],
           "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}})",
       "schema: a schema is one of its own alternatives"},
      {R"({"allOf": [{"type": "string"}, {"type": "object"}]})", "schema/allOf/0: allOf is"},
  };
  for (const auto& [schema, message] : cases) {
    const Result<std::string> grammar = model::grammar_of_schema(schema);
    ASSERT_FALSE(grammar.ok()) << schema;
    EXPECT_EQ(grammar.status().code(), Code::kInvalidArgument) << schema;
    EXPECT_EQ(grammar.status().message().substr(0, std::string(message).size()), message)
        << grammar.status().message();
  }
}

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST_F(SchemaTest, BombsAreRefused) {
  std::string choices = R"({"enum": [0)",
              properties = R"({"type": "object", "properties": {"a": {})";
  for (int i = 0; i < 20'000; ++i) choices += "," + std::to_string(i);
  for (int i = 0; i < 3'000; ++i) properties += ",\"p" + std::to_string(i) + "\": {}";
  // Each level twice the next: 2^25 ways for a search that remembers nothing.
  std::string doubling = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 25; ++i) {
    const std::string next = R"({"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"}";
    doubling += "\"d" + std::to_string(i) + R"(": {"anyOf": [)" + next + "," + next + "]},";
  }
  doubling += R"("d25": {"type": "null"}}})";
  std::string types = R"({"type": "null"})";
  for (int i = 0; i < 12; ++i) {
    types = R"({"type": ["object", "object", "object"], "properties": {"a": )" + types + "}}";
  }
  const std::string bombs[] = {
      repeated(R"({"items": )", 40) + "{}" + repeated("}", 40),
      repeated(R"({"items": )", 5'000) + "{}" + repeated("}", 5'000),
      choices + "]}",
      properties + "}}",
      doubling,
      types,
      R"({"type": "string", "pattern": "^)" + repeated("(", 200) + "a" + repeated(")*", 200) +
          "$\"}",
      R"({"type": "string", "pattern": "^)" + repeated("(", 20) + "a" + repeated("{0,2})", 20) +
          "$\"}",
      R"({"type": "string", "pattern": "^(a{0,1000}){0,1000}$"})",
      R"({"type": "string", "pattern": "^)" + std::string(100'000, 'a') + "$\"}",
      R"({"type": "array", "items": {"type": "string"}, "minItems": 100000000})",
      R"({"type": "string", "maxLength": 4294967297})",
      R"({"const": ")" + std::string(300'000, 'a') + "\"}",
      R"({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}],
          "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}})",
  };
  for (const std::string& bomb : bombs) {
    const Result<std::string> grammar = model::grammar_of_schema(bomb);
    ASSERT_FALSE(grammar.ok()) << bomb.substr(0, 100);
    EXPECT_EQ(grammar.status().code(), Code::kInvalidArgument);
    EXPECT_LT(grammar.status().message().size(), 500u);
  }
  // Large, and fine.
  std::string large = R"({"type": "object", "properties": {"a": {})";
  for (int i = 0; i < 200; ++i) large += ",\"p" + std::to_string(i) + R"(": {"type": "integer"})";
  const Result<std::string> grammar = model::grammar_of_schema(large + "}}");
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  EXPECT_TRUE(allows(*grammar, R"({"a": 1, "p7": 2, "p199": 3})"));
}

// A random pattern of what plain_pattern takes, over the letters a, b and c.
std::string random_pattern(std::mt19937_64& random, int depth) {
  const auto pick = [&](int most) {
    return static_cast<int>(random() % static_cast<unsigned>(most));
  };
  static const char* const kAtoms[] = {"a", "b", "c", "[ab]", "[^a]", ".", "\\w", "[a-b]", "\\."};
  static const char* const kTimes[] = {"", "", "", "?", "*", "+", "{2}", "{1,2}", "{1,}", "*?"};
  std::string text;
  for (int i = 0, parts = 1 + pick(3); i < parts; ++i) {
    const bool group = depth > 0 && pick(3) == 0;
    text += group ? "(" + std::string(pick(2) == 0 ? "?:" : "") +
                        random_pattern(random, depth - 1) + "|" + random_pattern(random, 0) + ")"
                  : kAtoms[pick(std::size(kAtoms))];
    text += kTimes[pick(std::size(kTimes))];
  }
  return text;
}

TEST_F(SchemaTest, PatternsMeanWhatTheyMeanToARegularExpressionEngine) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE("QUIRE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  int taken = 0, matched = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string pattern = "^(?:" + random_pattern(random, 2) + ")$";
    const model::Json schema = {{"type", "string"}, {"pattern", pattern}};
    const Result<std::string> grammar = model::grammar_of_schema(schema.dump());
    if (!grammar.ok()) {
      EXPECT_NE(grammar.status().message().find("too many nested"), std::string::npos)
          << pattern << ": " << grammar.status().message();
      continue;
    }
    ++taken;
    const std::regex expected(pattern);
    for (int j = 0; j < 12; ++j) {
      std::string text;
      for (auto length = random() % 6; length > 0; --length) text += "abc."[random() % 4];
      const bool matches = std::regex_match(text, expected);
      matched += matches;
      EXPECT_EQ(allows(*grammar, "\"" + text + "\""), matches) << pattern << " on " << text;
    }
  }
  EXPECT_GT(taken, 10);
  EXPECT_GT(matched, 0);
}

TEST_F(SchemaTest, AGrammarBeginsWithItsWord) {
  model::GrammarStart start{.lazy = true, .words = {"<go>"}};
  auto filter = model::GrammarFilter::create(text(), "root ::= \"<go>\" [0-9]+ \"!\"", start);
  ASSERT_TRUE(filter.ok()) << filter.status().message();
  const auto accept = [&](const std::string& bytes) {
    for (const char byte : bytes) {
      if (!(*filter)->accept(3 + static_cast<unsigned char>(byte))) return false;
    }
    return true;
  };
  EXPECT_TRUE(accept("anything <g <go"));
  EXPECT_TRUE((*filter)->allows(3 + 'x'));
  EXPECT_TRUE((*filter)->allows(2)) << "an answer may end without the word";
  EXPECT_TRUE(accept(">"));
  EXPECT_FALSE((*filter)->allows(3 + 'x'));
  EXPECT_FALSE((*filter)->allows(2));
  EXPECT_TRUE(accept("12"));
  EXPECT_FALSE(accept("x"));
  EXPECT_TRUE(accept("3!"));
  EXPECT_TRUE((*filter)->allows(2));
  start.words.clear();
  EXPECT_FALSE(model::GrammarFilter::create(text(), "root ::= \"a\"", start).ok());
  start.patterns = {"[\\s\\S]*(<go>)[\\s\\S]*"};
  filter = model::GrammarFilter::create(text(), "root ::= \"<go>\" [0-9]+ \"!\"", start);
  ASSERT_TRUE(filter.ok()) << filter.status().message();
  EXPECT_TRUE(accept("free <go>1"));
  EXPECT_FALSE((*filter)->allows(3 + 'x'));
}

TEST_F(SchemaTest, AGrammarReadsTheEndOfThePromptFirst) {
  const std::string grammar = "root ::= \"<|im_start|>assistant\\n\" \"a\"";
  const auto filter =
      model::GrammarFilter::create(text(), grammar, {.prefix = "<|im_start|>assistant\n"});
  ASSERT_TRUE(filter.ok()) << filter.status().message();
  EXPECT_TRUE((*filter)->allows(3 + 'a'));
  EXPECT_FALSE((*filter)->allows(3 + '<'));
  EXPECT_FALSE(model::GrammarFilter::create(text(), grammar, {.prefix = "<|im_end|>"}).ok());
}

// A vocabulary can lack what a grammar asks for: an error of that answer, not an end of the
// process.
TEST_F(SchemaTest, ASamplerThatFindsNoTokenIsStuck) {
  std::vector<float> logits(model_->info().vocabulary, 0);
  for (const float temperature : {0.0f, 1.0f}) {
    auto sampler = model::Sampler::create(
        *model_,
        {.temperature = temperature, .seed = 1, .grammar = "root ::= \"a\" [\\x00] \"b\""});
    ASSERT_TRUE(sampler.ok()) << sampler.status().message();
    EXPECT_EQ(model_->piece((*sampler)->sample(logits)), "a");
    EXPECT_FALSE((*sampler)->stuck());
    EXPECT_TRUE(model_->is_end((*sampler)->sample(logits)));
    EXPECT_TRUE((*sampler)->stuck());
  }
}

// Each letter can be read in eight ways, which go on in different ones: 8^40 of them.
TEST_F(SchemaTest, AGrammarOfTooManyWaysEndsItsAnswer) {
  std::string grammar = "root ::= s\ns ::= \"0\"";
  for (char end = 'a'; end <= 'h'; ++end) grammar += std::string(" | [^n] s \"") + end + "\"";
  auto sampler = model::Sampler::create(*model_, {.temperature = 0, .grammar = grammar});
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  std::vector<float> logits(model_->info().vocabulary, 0);
  logits[3 + 'x'] = 1;
  int tokens = 0;
  while (tokens < 40 && !(*sampler)->stuck()) tokens += (*sampler)->sample(logits) == 3 + 'x';
  EXPECT_TRUE((*sampler)->stuck());
  EXPECT_GT(tokens, 2);
}

}  // namespace
}  // namespace quire
