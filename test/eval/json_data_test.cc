// Goal: documents are parts of a file, a question's path leads to one value, and what has nothing
// to ask for is refused by name. Method: small files by hand; every question is looked up in its
// parsed document.

#include "eval/json_data.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

namespace quire::eval {
namespace {

using Json = nlohmann::ordered_json;

// Four letters a token.
const TokenCount kFours = [](std::string_view text) { return text.size() / 4; };

Result<std::vector<Document>> made(const Json& file, const JsonShape& shape, int seed = 1) {
  return json_documents(file.dump(), "f.json", shape, Stream(static_cast<std::uint64_t>(seed)),
                        kFours);
}

// A country has names in languages; its codes are its own, its region is not.
Json countries(int count) {
  Json list = Json::array();
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(1000 + i);
    list.push_back({{"region", "north"},
                    {"code", "C" + n},
                    {"names", {{"ces", {{"common", "ces" + n}}}, {"deu", {{"common", "deu" + n}}}}},
                    {"area", 70000 + i},
                    {"one", 1}});
  }
  return list;
}

TEST(JsonData, PartsAreWholeRecordsThatFit) {
  const Result<std::vector<Document>> documents =
      made(countries(40), {.tokens = 225, .questions = 4, .documents = 3});
  ASSERT_TRUE(documents.ok()) << documents.status().message();
  ASSERT_EQ(documents->size(), 3u);
  std::set<std::string> codes;
  for (const Document& document : *documents) {
    EXPECT_LE(kFours(document.text), 225u);
    EXPECT_GE(kFours(document.text), 112u);
    for (const Json& record : Json::parse(document.text)) {
      EXPECT_EQ(record.size(), 5u);
      EXPECT_TRUE(codes.insert(record.at("code").get<std::string>()).second) << "parts overlap";
    }
    EXPECT_EQ(document.questions.size(), 4u);
    EXPECT_EQ(std::ranges::count(document.lead, '\n'), 2 + 3);
  }
}

TEST(JsonData, APathThroughARecordLeadsToItsValue) {
  const Document document =
      made(countries(40), {.tokens = 225, .questions = 30, .documents = 1})->at(0);
  const Json records = Json::parse(document.text);
  std::string lines = document.lead.substr(2);
  for (const Question& question : document.questions) {
    lines += question.prompt + question.answer + question.after;
  }
  std::size_t asked = 0;
  for (std::size_t end = 0; (end = lines.find('\n')) != std::string::npos; ++asked) {
    const Json path = Json::parse(lines.substr(0, end), nullptr, false);
    ASSERT_TRUE(path.is_object()) << lines;
    // {"code": "C1003", "area": 70003} or with "names": {"ces": {"common": "ces1003"}} within.
    std::size_t found = 0;
    for (const Json& record : records) {
      if (record.at("code") != path.at("code")) continue;
      ++found;
      if (path.contains("area")) {
        EXPECT_EQ(path.at("area"), record.at("area"));
      }
      if (path.contains("names")) {
        for (const auto& [language, name] : path.at("names").items()) {
          EXPECT_EQ(name, record.at("names").at(language));
        }
      }
      EXPECT_FALSE(path.contains("region")) << "another record says the same";
      EXPECT_FALSE(path.contains("one")) << "too short to be found";
    }
    EXPECT_EQ(found, 1u) << path;
    lines.erase(0, end + 1);
  }
  EXPECT_EQ(asked, 3 * records.size()) << "an area and two names of each";
}

TEST(JsonData, TheShortestPathOfItsOwnIsAsked) {
  const Json file = {{"id", "first"},
                     {"left", {{"name", "alpha"}, {"only", "beta"}}},
                     {"right", {{"name", "gamma"}, {"twice", "delta"}}},
                     {"far", {{"deep", {{"twice", "delta"}, {"end", "omega"}}}}}};
  const Document document = made(file, {.tokens = 100, .questions = 9})->at(0);
  std::string all = document.lead;
  for (const Question& question : document.questions) {
    all += question.prompt + question.answer + question.after;
  }
  for (const char* line :
       {"\"id\": \"first\"\n", "\"left\": {\"name\": \"alpha\"}\n", "\"only\": \"beta\"\n",
        "\"right\": {\"name\": \"gamma\"}\n", "\"end\": \"omega\"\n"}) {
    EXPECT_NE(all.find(line), std::string::npos) << line << all;
  }
  EXPECT_EQ(all.find("delta"), std::string::npos) << "it stands there twice";
  EXPECT_EQ(document.questions.size(), 2u);
}

TEST(JsonData, LinesOfJsonAreAListAndOtherTextIsNamed) {
  std::string lines;
  for (const Json& record : countries(20)) lines += record.dump() + "\n";
  const auto read = [&](const std::string& text) {
    return json_documents(text, "f.ndjson", {.tokens = 200}, Stream(1), kFours);
  };
  EXPECT_TRUE(read(lines).ok());
  const Status broken = read(lines + "{\"a\": \n").status();
  EXPECT_EQ(broken.code(), Code::kInvalidArgument);
  EXPECT_EQ(broken.message(), "f.ndjson:21: neither JSON nor a line of JSON Lines");
  const Status empty = read("[\"asin\",\"brand\"]\n[\"B0000SX2UC\",\"Nokia\"]\n").status();
  EXPECT_EQ(empty.message(),
            "f.ndjson: no part of 100 to 200 tokens has 4 members with a value of its own to ask "
            "for");
}

TEST(JsonData, DependsOnFileAndStreamAlone) {
  const auto texts = [](int seed) {
    std::string all;
    const JsonShape shape{.tokens = 175, .questions = 3, .documents = 4};
    const Result<std::vector<Document>> documents = made(countries(30), shape, seed);
    for (const Document& document : *documents) {
      all += document.text + document.lead + document.questions[0].prompt;
    }
    return all;
  };
  EXPECT_EQ(texts(1), texts(1));
  EXPECT_NE(texts(1), texts(2));
}

}  // namespace
}  // namespace quire::eval
