// Goal: the JSON scanner accepts what RFC 8259 does, and calls keys and values what a parser does,
//   also of a document that is cut off, broken, or hostile.
// Method: nlohmann-json as the other parser, on random documents in every layout it writes and on
//   mutations of them; every prefix of a document.  A failure prints its seed; rerun with
//   QUIRE_SEED=<seed>.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "roles/roles.h"
#include "roles/scanners.h"
#include "roles/shown.h"
#include "support/seed.h"

namespace quire::roles {
namespace {

using nlohmann::json;
using How = Scanned::How;

struct Labelled {
  Scanned scanned;
  std::vector<Role> roles;
};

Labelled scan(std::string_view text) {
  Labelled labelled{{}, std::vector<Role>(text.size(), Role::kProse)};
  labelled.scanned = scan_json(text, labelled.roles);
  return labelled;
}

std::string shown(std::string_view text) {
  return test::letters(scan(text).roles);
}

std::string random_string(std::mt19937_64& random) {
  const char* const pieces[] = {"word", "_",  "7",  " ",    "\"",   "\\",
                                "/",    "\n", "\t", "{",    "}",    "[",
                                ":",    ",",  "é",  "日本", "\x01", "\xf0\x9f\x98\x80",
                                "a",    "Z"};
  std::string text;
  for (std::size_t i = random() % 6; i > 0; --i) text += pieces[random() % std::size(pieces)];
  return text;
}

json random_json(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 0 ? 10 : 7)) {
    case 0:
      return random() % 2 == 0;
    case 1:
      return nullptr;
    case 2:
      return static_cast<std::int64_t>(random() % 100000) - 50000;
    case 3:
      return static_cast<double>(random() % 100000) / 128 * (random() % 2 == 0 ? 1e20 : 1);
    case 7: {
      json array = json::array();
      for (std::size_t i = random() % 5; i > 0; --i)
        array.push_back(random_json(random, depth - 1));
      return array;
    }
    case 8:
    case 9: {
      json object = json::object();
      for (std::size_t i = random() % 5; i > 0; --i) {
        object[random_string(random)] = random_json(random, depth - 1);
      }
      return object;
    }
    default:
      return random_string(random);
  }
}

std::string random_text(std::mt19937_64& random) {
  const int indents[] = {-1, 0, 2, 4};
  return random_json(random, 5).dump(indents[random() % 4], random() % 4 == 0 ? '\t' : ' ',
                                     random() % 2 == 0);
}

// Keys and values in the order in which a parser meets them.
struct Events : nlohmann::json_sax<json> {
  std::vector<json> keys, values;
  bool value(json v) { return values.push_back(std::move(v)), true; }
  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(number_integer_t v) override { return value(v); }
  bool number_unsigned(number_unsigned_t v) override { return value(v); }
  bool number_float(number_float_t v, const string_t&) override { return value(v); }
  bool string(string_t& v) override { return value(v); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& v) override { return keys.push_back(v), true; }
  bool start_object(std::size_t) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }
};

TEST(Json, EveryByteHasTheRoleOfItsPart) {
  EXPECT_EQ(shown(R"({"a": [1, "b c", true], "d":{}})"), "dkkkd_dvd_vvvvvd_vvvvdd_kkkdddd");
  EXPECT_EQ(shown("[ ]\n"), "d_dp") << "the document ends with its bracket";
  EXPECT_EQ(shown(R"("top")"), "vvvvv");
  EXPECT_EQ(shown("-1.5e+3"), "vvvvvvv");
}

TEST(Json, KeysAndValuesAreThoseOfAParser) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random);
    Events events;
    ASSERT_TRUE(json::sax_parse(text, &events)) << text;
    const Labelled labelled = scan(text);
    ASSERT_EQ(labelled.scanned.how, How::kWhole) << text;
    ASSERT_EQ(labelled.scanned.end, text.size()) << text;
    std::vector<json> keys, values;
    for (const test::Run& run : test::runs(text, labelled.roles)) {
      ASSERT_NE(run.role, Role::kProse) << text;
      if (run.role == Role::kKey) keys.push_back(json::parse(run.text));
      if (run.role == Role::kValue) values.push_back(json::parse(run.text));
      if (run.role == Role::kBlank) {
        ASSERT_EQ(run.text.find_first_not_of(" \t\n"), std::string::npos);
      }
      if (run.role == Role::kDelimiter) {
        ASSERT_EQ(run.text.find_first_not_of("{}[],:"), std::string::npos) << text;
      }
    }
    ASSERT_EQ(keys, events.keys) << text;
    ASSERT_EQ(values, events.values) << text;
  }
}

// What the two say differently is not grammar: encodings, surrogates, and numbers beyond a double.
bool comparable(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != 'e' && text[i] != 'E') continue;
    const std::size_t first = std::min(text.find_first_not_of("+-", i + 1), text.size());
    const std::size_t end = std::min(text.find_first_not_of("0123456789", first), text.size());
    if (end - first > 2) return false;
  }
  return text.find("\\u") == std::string::npos &&
         std::ranges::none_of(text, [](char c) { return static_cast<signed char>(c) < 0; });
}

TEST(Json, AcceptsWhatAParserAccepts) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::string_view alphabet = "{}[],:\"\\ 0123456789.-+eEtrufalsn\n\tx/b";
  int accepted = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = random_text(random);
    for (std::size_t i = random() % 3; i > 0 && !text.empty(); --i) {
      const std::size_t at = random() % text.size();
      const char letter = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          text[at] = letter;
          break;
        case 1:
          text.insert(at, 1, letter);
          break;
        default:
          text.erase(at, 1);
      }
    }
    if (!comparable(text)) continue;
    const Scanned scanned = scan(text).scanned;
    const bool whole = scanned.how == How::kWhole &&
                       text.find_first_not_of(" \t\r\n", scanned.end) == std::string::npos;
    ASSERT_EQ(whole, json::accept(text)) << text;
    ++(whole ? accepted : refused);
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(Json, APrefixHasTheRolesOfTheWhole) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const json document{{random_string(random), random_json(random, 4)}};
    const std::string text = document.dump(round % 3 - 1);
    const std::string whole = test::letters(label_text(text));
    ASSERT_EQ(whole, shown(text));
    for (std::size_t cut = 0; cut < text.size(); ++cut) {
      const std::string_view part = std::string_view(text).substr(0, cut);
      ASSERT_EQ(test::letters(label_text(part)), whole.substr(0, cut)) << part;
      ASSERT_EQ(scan(part).scanned.how, How::kCut) << part;
    }
  }
}

TEST(Json, WhatDoesNotParseIsProse) {
  EXPECT_EQ(shown("{\"a\": 1, b}"), "dkkkd_vd_pp");
  EXPECT_EQ(shown("[1, nul]"), "dvd_pppp");
  EXPECT_EQ(shown("[\"a\nb\"]"), "dpppppp") << "no line ends in strings";
  EXPECT_EQ(shown("[01]"), "dppp");
  EXPECT_EQ(shown("[\"\\x\"]"), "dppppp");
  EXPECT_TRUE(scan("{\"a\"}").scanned.by_chance);
  EXPECT_FALSE(scan("{\"a\":}").scanned.by_chance);
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](std::size_t depth) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) text += "{\"a\":";
    return text;
  };
  EXPECT_EQ(scan(nested(kDepthMost)).scanned.how, How::kCut);
  const std::string deeper = nested(kDepthMost + 1);
  EXPECT_EQ(scan(deeper).scanned.how, How::kBroken);
  EXPECT_EQ(scan(deeper).scanned.end, deeper.size() - 5);
  EXPECT_EQ(label_text(std::string(1 << 20, '[')).size(), std::size_t{1} << 20);
  // Objects and arrays are told apart at every level, also behind deeper ones that were closed.
  std::string text, roles;
  for (int i = 0; i < 200; ++i) text += i % 3 == 0 ? "[[],{\"a\":[[]]}," : "{\"b\":[1],\"c\":";
  text += "0";
  for (int i = 199; i >= 0; --i) text += i % 3 == 0 ? ']' : '}';
  EXPECT_EQ(scan(text).scanned.how, How::kWhole);
}

}  // namespace
}  // namespace quire::roles
