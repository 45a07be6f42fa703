// Goal: `quire train roles` writes a probe that run, batch, serve and roles read, and says how good
// it is; a file of another vocabulary or a broken one is refused by name.
// Method: the built program on a small random model, whose tokenizer has a token a byte.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace quire {
namespace {

using nlohmann::json;
using test::contains;
using test::folder;
using test::Ran;
using test::tiny_model;

std::vector<std::string> train(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"train", "roles",    "-m",  tiny_model(), "--prompts",
                                        "10",    "--tokens", "512", "--epochs",   "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// A probe, written once.
const std::string& probe() {
  static const std::string file = [] {
    const std::string path = folder().file("tiny.probe");
    const Ran ran = test::quire(train({"--no-transfer", "-o", path}));
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_TRUE(contains(ran.out, "F1 on texts left out")) << ran.out;
    EXPECT_TRUE(contains(ran.out, "us a token")) << ran.out;
    return path;
  }();
  return file;
}

TEST(TrainRoles, ScoresEveryKindOfTextAndItsTransfer) {
  const std::string data = folder().write("mine.json", [] {
    json records = json::array();
    for (int i = 0; i < 200; ++i) records.push_back({{"city", "Ulm"}, {"people", i * 17}});
    return records.dump(2);
  }());
  const Ran ran = test::quire(train({"--json", "--data", data}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json object = json::parse(ran.out);
  EXPECT_EQ(object.at("quire_json"), 1);
  std::vector<std::string> names;
  for (const json& corpus : object.at("corpora")) {
    names.push_back(corpus.at("corpus"));
    EXPECT_GT(corpus.at("tokens_learnt"), corpus.at("tokens")) << names.back();
    EXPECT_GT(corpus.at("accuracy"), 0.5) << names.back();
    EXPECT_TRUE(corpus.at("transfer").at("f1").contains("key"));
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"json", "json-compact", "xml", "table", "mixed", data}));
  EXPECT_GT(object.at("f1").at("delimiter"), 0.7);
  EXPECT_GT(object.at("confusion").at("key").at("key"), 0);
  EXPECT_GT(object.at("ids"), 20);
}

TEST(TrainRoles, IsTheSameForASeed) {
  const std::string other = folder().file("other.probe");
  ASSERT_EQ(test::quire(train({"--no-transfer", "-o", other})).status, 0);
  EXPECT_EQ(test::read_file(other), test::read_file(probe()));
  ASSERT_EQ(test::quire(train({"--no-transfer", "--seed", "2", "-o", other})).status, 0);
  EXPECT_NE(test::read_file(other), test::read_file(probe()));
}

TEST(TrainRoles, TheProbeStandsBesideTheParser) {
  const std::string file = folder().write("roles.txt", "See {\"a\": [1, 2]}.");
  const std::vector<std::string> arguments = {"roles",      "-f",      file,   "-m",
                                              tiny_model(), "--probe", probe()};
  const Ran text = test::quire(arguments);
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_TRUE(contains(text.out, "{d {")) << text.out;
  EXPECT_TRUE(contains(text.out, "F1")) << text.out;
  std::vector<std::string> as_json = arguments;
  as_json.push_back("--json");
  const json object = json::parse(test::quire(as_json).out);
  EXPECT_GE(object.at("tokens"), 18);
  EXPECT_TRUE(object.at("probe").at("f1").contains("value"));
  std::size_t tokens = 0;
  for (const auto& row : object.at("probe").at("confusion")) {
    for (const auto& count : row) tokens += count.get<std::size_t>();
  }
  EXPECT_EQ(object.at("tokens"), tokens);
}

TEST(TrainRoles, AnswersTakeTheProbeFromAFlag) {
  std::string text = "{";
  for (int i = 0; i < 20; ++i) text += "\"a" + std::to_string(i) + "\": \"b\", ";
  const auto run = [&](const std::string& roles) {
    return test::quire({"run", "-m", tiny_model(), "--raw", "-p", text, "-n", "4", "--policy",
                        "role-conditional:recent=4,least=0", "--keep", "30%", "--roles", roles,
                        "--json"});
  };
  for (const std::string& roles :
       {std::string("parser"), std::string("none"), "probe:" + probe()}) {
    const Ran ran = run(roles);
    ASSERT_EQ(ran.status, 0) << roles << ran.err;
    EXPECT_GT(json::parse(ran.out).at("kv").at("entries_dropped"), 0) << roles;
  }
  const std::string requests = folder().write(
      "requests.jsonl", R"({"custom_id": "a", "method": "POST", "url": "/v1/completions", )"
                        R"("body": {"prompt": "{\"a\": 1}", "max_tokens": 2}})"
                        "\n");
  const auto batch = [&](const std::string& roles) {
    return test::quire({"batch", "-m", tiny_model(), "-i", requests, "-o",
                        folder().file("results.jsonl"), "--policy", "role-conditional", "--keep",
                        "50%", "--roles", roles});
  };
  EXPECT_EQ(batch("probe:" + probe()).status, 0);

  std::string broken = test::read_file(probe());
  broken[100] = static_cast<char>(broken[100] ^ 1);
  const std::string bad = folder().write("bad.probe", broken);
  const std::vector<Ran> refused = {
      run("probe:" + bad), batch("probe:" + bad),
      test::quire({"serve", "-m", tiny_model(), "--port", "0", "--roles", "probe:" + bad}),
      test::quire({"roles", "-f", bad, "-m", tiny_model(), "--probe", bad})};
  for (const Ran& ran : refused) {
    EXPECT_EQ(ran.status, 1);
    EXPECT_TRUE(contains(ran.err, "bad.probe: probe: byte ")) << ran.err;
  }
  EXPECT_TRUE(contains(run("probe:no-such-file").err, "cannot read no-such-file"));
}

}  // namespace
}  // namespace quire
