// Goal: the file of `quire train gate` is read as it was written, a bad one or another model's is
// refused by field, and run, batch and training do with a gate what their flags say.
// Method: files by hand; the built program on a small random model.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/gate_file.h"
#include "cli/program.h"

namespace quire::cli {
namespace {

using nlohmann::json;
using test::contains;
using test::folder;
using test::quire;
using test::Ran;
using test::tiny_model;

GateFile made_up() {
  return {.calibration = {.statistic = Statistic::kRowVariation,
                          .mode = engine::GateMode::kZ,
                          .threshold = -0.5,
                          .mean = 1.25,
                          .deviation = 0.125},
          .model = "a model",
          .fingerprint = "0123456789abcdef",
          .prompts = 112,
          .texts = "a novel",
          .texts_sha256 = "feed"};
}

TEST(GateFile, IsReadAsWritten) {
  const Result<GateFile> file = parse_gate_file(gate_file_json(made_up()).dump(), "g.json");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->calibration.statistic, Statistic::kRowVariation);
  EXPECT_EQ(file->calibration.mode, engine::GateMode::kZ);
  EXPECT_EQ(file->calibration.threshold, -0.5);
  EXPECT_EQ(file->calibration.mean, 1.25);
  EXPECT_EQ(file->calibration.deviation, 0.125);
  EXPECT_EQ(file->fingerprint, "0123456789abcdef");
  EXPECT_EQ(file->prompts, 112u);
  EXPECT_EQ(file->texts_sha256, "feed");
  GateFile sign = made_up();
  sign.calibration.mode = engine::GateMode::kSigned;
  sign.calibration.deviation = -0.125;
  const Result<GateFile> again = parse_gate_file(gate_file_json(sign).dump(), "g.json");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->calibration, sign.calibration);
  sign.calibration.deviation = 0;
  EXPECT_EQ(parse_gate_file(gate_file_json(sign).dump(), "g").status().message(),
            "g: deviation: is 0");
}

TEST(GateFile, ABadOneIsRefusedByField) {
  const auto refusal = [](const std::string& text) {
    const Result<GateFile> file = parse_gate_file(text, "g");
    return file.ok() ? "accepted" : file.status().message();
  };
  EXPECT_EQ(refusal(""), "g: is not an object of quire train gate");
  EXPECT_EQ(refusal("[1]"), "g: is not an object of quire train gate");
  EXPECT_EQ(refusal("{}"), "g: quire_json is missing");
  const std::tuple<const char*, json, const char*> cases[] = {
      {"quire_json", 2, "g: quire_json: this version reads 1"},
      {"file", "tune", "g: file is not \"gate\""},
      {"rows", 64, "g: rows: this version judges by 32"},
      {"statistic", "entropy", "g: statistic is \"entropy\", which is unknown"},
      {"mode", "zz", "g: mode is \"zz\", which is unknown"},
      {"threshold", "low", "g: threshold is \"low\", no number"},
      {"mean", nullptr, "g: mean is null, no number"},
      {"deviation", 0, "g: deviation: not above 0"},
      {"fingerprint", 7, "g: fingerprint is 7, no text"},
      {"prompts", -1, "g: prompts: not from 0 to 1e9"}};
  for (const auto& [field, value, message] : cases) {
    json object = json::parse(gate_file_json(made_up()).dump());
    object[field] = value;
    EXPECT_EQ(refusal(object.dump()), message);
    object.erase(field);
    EXPECT_EQ(refusal(object.dump()), std::string("g: ") + field + " is missing");
  }
}

std::string letters(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += static_cast<char>('a' + i * i % 23);
  return text;
}

std::vector<std::string> asking(std::vector<std::string> more) {
  std::vector<std::string> arguments = {
      "run",   "-m",           tiny_model(), "-p", letters(200),      "-n",    "24", "--temp", "0",
      "--raw", "--ignore-eos", "--threads",  "1",  "--deterministic", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

json answer_of(const std::vector<std::string>& more) {
  const Ran ran = quire(asking(more));
  EXPECT_EQ(ran.status, 0) << ran.err;
  return json::parse(ran.out, nullptr, false);
}

TEST(Gate, ATrainedFileDecidesForItsModelAlone) {
  const std::string file = folder().file("gate.json");
  const std::string text = folder().write("text.txt", letters(900));
  const Ran trained = quire({"train", "gate", "-m", tiny_model(), "--text", text, "-o", file,
                             "--prompts", "20", "--tokens", "96", "--threads", "1"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_TRUE(contains(trained.out, "page-d of 20 prompts")) << trained.out;
  json object = json::parse(test::read_file(file));
  EXPECT_EQ(object["statistic"], "page-d");
  EXPECT_EQ(object["mode"], "z");
  EXPECT_EQ(object["threshold"], -0.69);
  EXPECT_EQ(object["texts_sha256"].get<std::string>().size(), 64u);

  const std::vector<std::string> policy = {"--policy", "h2o:recent=16", "--keep", "50%"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), policy.begin(), policy.end());
    return answer_of(more);
  };
  const json exact = answer_of({}), plain = with({});
  object["threshold"] = -1000;
  const std::string always = folder().write("always.json", object.dump());
  object["threshold"] = 1000;
  const std::string never = folder().write("never.json", object.dump());
  const json open = with({"--gate", "auto", "--gate-file", always});
  EXPECT_EQ(open["text"], plain["text"]);
  EXPECT_EQ(open["kv"]["gate"]["decision"], "open");
  EXPECT_EQ(open["kv"]["gate"]["mode"], "z");
  EXPECT_GT(open["kv"]["entries_dropped"], 0);
  const json kept = with({"--gate", "auto", "--gate-file", never});
  EXPECT_EQ(kept["text"], exact["text"]);
  EXPECT_EQ(kept["kv"]["gate"]["decision"], "closed");
  EXPECT_EQ(kept["kv"]["gate"]["threshold"], 1000);
  EXPECT_EQ(kept["kv"]["gate"]["value"], open["kv"]["gate"]["value"]);
  EXPECT_EQ(kept["kv"]["lossy"], false);
  const json shut = with({"--gate", "closed"});
  EXPECT_EQ(shut["text"], exact["text"]);
  EXPECT_EQ(shut["kv"]["gate"]["reason"], "configured");
  // Without a file PAGE's own threshold.
  const json by_default = with({"--gate", "auto"})["kv"]["gate"];
  EXPECT_EQ(by_default["mode"], "raw");
  EXPECT_EQ(by_default["threshold"], 0.07);
  EXPECT_EQ(by_default["value"], open["kv"]["gate"]["value"]);

  object["fingerprint"] = "0000000000000000";
  const std::string others = folder().write("others.json", object.dump());
  const Ran refused = quire(asking({"--policy", "h2o", "--gate", "auto", "--gate-file", others}));
  EXPECT_NE(refused.status, 0);
  EXPECT_TRUE(contains(refused.err, "was made for the model")) << refused.err;
}

TEST(Gate, OfABatchLineIsItsOwn) {
  const std::string input = folder().write(
      "gated.jsonl",
      json({{"custom_id", "a"},
            {"method", "POST"},
            {"url", "/v1/completions"},
            {"body",
             {{"prompt", letters(200)},
              {"max_tokens", 8},
              {"kv", {{"policy", "h2o:recent=16"}, {"keep", "50%"}, {"gate", "closed"}}}}}})
              .dump() +
          "\n");
  const std::string output = folder().file("gated.out.jsonl");
  const Ran ran = quire({"batch", "-m", tiny_model(), "-i", input, "-o", output, "--threads", "1"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json line = json::parse(test::read_file(output));
  const json& kv = line["response"]["body"]["kv"];
  EXPECT_EQ(kv["gate"]["decision"], "closed") << line;
  EXPECT_EQ(kv["entries_dropped"], 0);
}

TEST(Gate, FlagsThatMeanNothingAreRefused) {
  EXPECT_TRUE(contains(quire({"run", "-m", tiny_model(), "-p", "a", "--gate", "ajar"}).err,
                       "\"ajar\" is none of auto, open, closed, self-check"));
  const std::string text = folder().write("text.txt", letters(900));
  const Ran raw = quire({"train", "gate", "-m", tiny_model(), "--mode", "raw", "--statistic",
                         "row-variation", "--text", text, "--prompts", "20", "--tokens", "96"});
  EXPECT_NE(raw.status, 0);
  EXPECT_TRUE(contains(raw.err, "threshold: row-variation has no published one")) << raw.err;
  const std::string brief = folder().write("brief.txt", "a hare met seven hounds.");
  const Ran texts = quire({"train", "gate", "-m", tiny_model(), "--text", brief});
  EXPECT_NE(texts.status, 0);
  EXPECT_TRUE(contains(texts.err, "is too short for")) << texts.err;
}

}  // namespace
}  // namespace quire::cli
