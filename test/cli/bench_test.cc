// Goal: `quire bench` measures what was asked for, beside libllama, and says it in the documented
// form; what it cannot measure is refused or left out by name.
// Method: rows and costs against numbers computed by hand; the built program on a small random
// model, its JSON checked key by key.  No time is asserted.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/bench_limits.h"
#include "cli/bench_measure.h"
#include "cli/bench_rows.h"
#include "cli/program.h"

namespace quire::cli {
namespace {

using nlohmann::json;
using test::contains;
using test::Ran;
using test::tiny_model;

TEST(BenchRows, AreReadAndWrittenAlike) {
  for (const char* name : {"pp512", "pp64@d4096", "tg32@d8000", "tg16x16@d2048", "tg8x4",
                           "tg32@d8000+keep1024", "tg4x2@d64+keep64"}) {
    const Result<BenchRow> row = parse_bench_row(name);
    ASSERT_TRUE(row.ok()) << name;
    EXPECT_EQ(row->name(), name);
  }
  EXPECT_EQ(parse_bench_row("pp")->tokens, 512u);
  EXPECT_EQ(parse_bench_row("tg@d128")->name(), "tg32@d128");
  const BenchRow row = *parse_bench_row("tg16x8@d2048+keep256");
  EXPECT_EQ(row.kind, BenchRow::Kind::kDecode);
  EXPECT_EQ(row.depth, 2048u);
  EXPECT_EQ(row.keep, 256u);
  EXPECT_EQ(row.work(), 128u);
}

TEST(BenchRows, WhatIsNoTestIsRefused) {
  for (const char* text : {"", "512", "pp0", "pp-1", "pp512x2", "tgx", "tg1x0", "tg1x257", "tg1@d0",
                           "tg1@4096", "tg1@d", "pp1048577", "tg8+keep8", "tg8@d64+keep65",
                           "pp8@d8+keep4", "tg8@d8 ", "pp512pp"}) {
    EXPECT_FALSE(parse_bench_row(text).ok()) << text;
  }
}

TEST(BenchRows, CrossAsLlamaBenchDoes) {
  std::vector<std::string> names;
  for (const BenchRow& row : cross_bench_rows({64, 0}, {8}, {0, 32}, {1, 2})) {
    names.push_back(row.name());
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"pp64", "tg8", "tg8x2", "pp64@d32", "tg8@d32", "tg8x2@d32"}));
}

TEST(BenchNumbers, RatiosAreTakenPairByPair) {
  RowResult result{.row = {}, .ours = {10, 20, 30}, .peer = {10, 10, 10}};
  EXPECT_EQ(result.ratios(), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(median(result.ours), 20);
  EXPECT_EQ(percentile10(result.ours), 10);
  EXPECT_EQ(result.spread(), 1);
  EXPECT_TRUE(result.wide());
  result.ours = {100, 101, 102};
  EXPECT_FALSE(result.wide());
}

TEST(BenchNumbers, ATokenCostsItsShareOfTheStep) {
  CacheOptions cache;
  cache.layers = {{.kv_heads = 1, .query_heads = 3, .key_size = 4, .value_size = 4},
                  {.kv_heads = 1, .query_heads = 3, .key_size = 4, .value_size = 4, .window = 10}};
  const model::MatrixTraffic matrices{
      .layer_bytes = 1000, .head_bytes = 100, .layer_weights = 2000, .head_weights = 200};
  // A step reads all matrices, then 16 bytes an entry: 101 and 10 of them on average, per
  // sequence; and writes one entry in each layer.
  const TokenCost one = cost_of(*parse_bench_row("tg2@d100"), matrices, cache, 512);
  EXPECT_DOUBLE_EQ(one.bytes, 1100 + 16 * (101 + 10) + 2 * 16);
  EXPECT_DOUBLE_EQ(one.operations, 2 * 2200 + 2 * 3 * 8 * (101 + 10));
  const TokenCost of_four = cost_of(*parse_bench_row("tg2x4@d100"), matrices, cache, 512);
  EXPECT_DOUBLE_EQ(of_four.bytes, 1100 / 4.0 + 16 * (101 + 10) + 2 * 16);
  EXPECT_DOUBLE_EQ(of_four.operations, one.operations);
  const TokenCost kept = cost_of(*parse_bench_row("tg2@d100+keep20"), matrices, cache, 512);
  EXPECT_DOUBLE_EQ(kept.bytes, 1100 + 16 * (21 + 10) + 2 * 16);
  // Two chunks of 4 read the layers twice and the head once.
  const TokenCost prompt = cost_of(*parse_bench_row("pp8"), matrices, cache, 4);
  EXPECT_DOUBLE_EQ(prompt.bytes, (2 * 1000 + 100) / 8.0 + 2 * 16 * (4 * 2 / 8.0 + 1));
  EXPECT_DOUBLE_EQ(prompt.operations, 2 * (2000 + 200 / 8.0) + 2 * 2 * 3 * 8 * 4);
}

TEST(BenchLimits, AreMeasuredOnEveryThread) {
  const MachineLimits limits = measure_limits(2);
  EXPECT_EQ(limits.threads, 2u);
  EXPECT_FALSE(limits.cpu.empty());
  EXPECT_GT(limits.read_bytes_s, 0);
  ASSERT_FALSE(limits.peaks.empty());
  for (const auto& [name, peak] : limits.peaks) EXPECT_GT(peak, 0) << name;
  EXPECT_EQ(limits.best_peak(),
            std::ranges::max(limits.peaks, {}, [](const auto& p) { return p.second; }).second);
}

std::vector<std::string> bench(std::vector<std::string> more) {
  std::vector<std::string> all = {"bench", "-m", tiny_model(), "-t", "1", "--pairs", "2"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(BenchJson, HasTheDocumentedSchemaBesideLibllama) {
  const Ran ran = test::quire(bench({"--vs", "llama", "--json", "--tests",
                                     "pp40,tg4@d64,tg3x4@d32,tg20@d128+keep80", "--chunk", "24"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json object = json::parse(ran.out);
  EXPECT_EQ(object.at("quire_json"), 1);
  EXPECT_EQ(object.at("machine").at("threads"), 1);
  EXPECT_GT(object["machine"].at("read_bytes_s"), 0);
  EXPECT_FALSE(object["machine"].at("peak_operations_s").empty());
  EXPECT_EQ(object.at("model").at("architecture"), "llama");
  EXPECT_EQ(object.at("check").at("tokens"), 32);
  EXPECT_TRUE(contains(object.at("peers").at("llama").at("system_info"), "CPU"));
  const std::vector<std::tuple<std::string, int, int>> expected = {
      {"pp40", 0, 1}, {"tg4@d64", 64, 1}, {"tg3x4@d32", 32, 4}, {"tg20@d128+keep80", 128, 1}};
  ASSERT_EQ(object.at("rows").size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const json& row = object["rows"][i];
    EXPECT_EQ(std::tuple(row.at("test").get<std::string>(), row.at("depth").get<int>(),
                         row.at("batch").get<int>()),
              expected[i]);
    for (const char* key : {"tok_s", "p10", "bandwidth_share", "peak_share", "bytes_per_token"}) {
      EXPECT_GT(row.at(key), 0) << key << " of " << row;
    }
    EXPECT_LE(row["p10"], row["tok_s"]);
    EXPECT_EQ(row.at("samples").size(), 2u);
    const json& peer = row.at("peers").at("llama");
    for (const char* key : {"tok_s", "ratio", "ratio_p10"}) EXPECT_GT(peer.at(key), 0) << key;
    EXPECT_EQ(peer.at("samples").size(), 2u);
  }
  EXPECT_EQ(object["rows"][3].at("policy"), "h2o");
  EXPECT_EQ(object["rows"][3].at("keep"), 80);
  EXPECT_TRUE(object["rows"][0].at("policy").is_null());
}

TEST(Bench, AloneItPrintsALineForEachRow) {
  const Ran ran = test::quire(bench({"-p", "16", "-n", "4", "-d", "0,32", "--keep", "75%",
                                     "--policy", "sink-recency:sinks=4,recent=8"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  for (const char* row : {"\npp16 ", "\ntg4 ", "\npp16@d32 ", "\ntg4@d32+keep24 "}) {
    EXPECT_TRUE(contains(ran.out, row)) << row << "\n" << ran.out;
  }
  EXPECT_FALSE(contains(ran.out, "ratio"));
  EXPECT_EQ(ran.err, "");
}

TEST(Bench, DefaultRowsThatDoNotFitTheContextAreLeftOutByName) {
  const Ran ran =
      test::quire({"bench", "-m", tiny_model(200), "-t", "1", "--pairs", "1", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json object = json::parse(ran.out);
  ASSERT_EQ(object["rows"].size(), 2u);
  EXPECT_EQ(object["rows"][0]["test"], "pp128");
  EXPECT_EQ(object["rows"][1]["test"], "tg32@d128");
  EXPECT_TRUE(
      contains(object["left_out"].dump(), "pp512: 512 tokens are over the model's context"));
}

TEST(Bench, RefusalsNameTheRow) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--tests", "tg8@d1020"}, "tg8@d1020: 1028 tokens are over the model's context of 1024"},
      {{"--tests", "tg8@d128+keep40"}, "tg8@d128+keep40: keep 40tok is 40 entries a lane"},
  };
  for (const auto& [arguments, message] : cases) {
    const Ran ran = test::quire(bench(arguments));
    EXPECT_EQ(ran.status, 1) << message;
    EXPECT_TRUE(contains(ran.err, message)) << ran.err;
  }
  const Ran absent = test::quire({"bench", "-m", test::folder().file("absent.gguf"), "--json"});
  EXPECT_EQ(absent.status, 1);
  EXPECT_TRUE(contains(json::parse(absent.out)["error"]["message"], "absent.gguf"));
}

}  // namespace
}  // namespace quire::cli
