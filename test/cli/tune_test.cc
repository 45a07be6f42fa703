// Goal: the table of `quire tune` is read as it was written, a bad one is refused by field, and the
// threshold is the one its cells say.
// Method: cells and files by hand; the built program on a small random model.  No time is asserted.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "cli/tuning.h"

namespace quire::cli {
namespace {

using model::TuneCell;
using nlohmann::json;
using test::contains;
using test::folder;
using test::Ran;
using test::tiny_model;

TuneCell cell(TuneCell::Work work, std::uint32_t rows, double ratio) {
  return {.work = work, .rows = rows, .exact_seconds = 1, .chunk_seconds = ratio, .ratio = ratio};
}

TEST(Tune, TheThresholdIsWhereTheExactKernelsStopBeingAsFast) {
  constexpr auto kLinear = TuneCell::Work::kLinear, kAttend = TuneCell::Work::kAttend;
  const std::vector<TuneCell> cells = {cell(kLinear, 8, 2.0),  cell(kLinear, 16, 0.9),
                                       cell(kLinear, 32, 1.0), cell(kLinear, 64, 0.5),
                                       cell(kAttend, 6, 0.9),  cell(kAttend, 24, 0.7)};
  EXPECT_EQ(model::chunk_rows_of(cells, kLinear, 7), 64u) << "32 is no gain, whatever 16 says";
  EXPECT_EQ(model::chunk_rows_of(cells, kAttend, 7), 6u);
  EXPECT_EQ(model::chunk_rows_of({}, kLinear, 7), 7u);
  const std::vector<TuneCell> never = {cell(kLinear, 8, 0.5), cell(kLinear, 512, 1.5)};
  EXPECT_EQ(model::chunk_rows_of(never, kLinear, 7), model::kNeverRows);
}

TEST(Tune, ATableIsReadAsWritten) {
  const std::vector<TuneCell> cells = {cell(TuneCell::Work::kLinear, 48, 0.5),
                                       cell(TuneCell::Work::kAttend, 12, 0.5)};
  const auto table = tuning_json({"a processor", "amx", "a model"}, cells);
  const Result<Tuning> tuning = parse_tuning(table.dump(), "t.json");
  ASSERT_TRUE(tuning.ok()) << tuning.status().message();
  EXPECT_EQ(tuning->linear_chunk_rows, 48u);
  EXPECT_EQ(tuning->attend_chunk_rows, 12u);
  EXPECT_EQ(tuning->source, "t.json");
  EXPECT_EQ(tuning->cpu, "a processor");
  EXPECT_EQ(table["rows"].size(), 2u);
  EXPECT_EQ(table["machine"]["isa"], "amx");
  const Tuning defaults = *read_tuning("");
  EXPECT_EQ(defaults.linear_chunk_rows, model::ModelOptions().linear_chunk_rows);
  EXPECT_EQ(defaults.attend_chunk_rows, CacheOptions().attend_chunk_rows);
}

TEST(Tune, ABadTableIsRefusedByFieldOrLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "t: line 1 is not JSON"},
      {"{\n \"quire_json\": 1,\n oops", "t: line 3 is not JSON"},
      {"[1]", "t: is not a table of quire tune, an object"},
      {"{}", "t: quire_json is missing, this version reads 1"},
      {R"({"quire_json": 2})", "t: quire_json is 2, this version reads 1"},
      {R"({"quire_json": 1})", "t: linear_chunk_rows is missing"},
      {R"({"quire_json": 1, "linear_chunk_rows": 0, "attend_chunk_rows": 1})",
       "t: linear_chunk_rows is 0, not a number from 1 to 1048576"},
      {R"({"quire_json": 1, "linear_chunk_rows": 8, "attend_chunk_rows": -1})",
       "t: attend_chunk_rows is -1, not a number from 1 to 1048576"},
      {R"({"quire_json": 1, "linear_chunk_rows": 8, "attend_chunk_rows": "8"})",
       "t: attend_chunk_rows is \"8\", not a number from 1 to 1048576"},
      {R"({"quire_json": 1, "linear_chunk_rows": 8, "attend_chunk_rows": 8, "machine": 1})",
       "t: machine.cpu is no text"},
  };
  for (const auto& [text, message] : cases) {
    const Result<Tuning> tuning = parse_tuning(text, "t");
    ASSERT_FALSE(tuning.ok()) << text;
    EXPECT_EQ(tuning.status().message(), message);
  }
}

TEST(Tune, TheProgramWritesATableThatEveryCommandReads) {
  const std::string table = folder().file("tune.json");
  const Ran tuned = test::quire({"tune", "-m", tiny_model(), "--quick", "-o", table});
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  const json object = json::parse(test::read_file(table));
  EXPECT_EQ(object["quire_json"], 1);
  const bool chunks = object["machine"]["isa"] == "amx";
  EXPECT_EQ(object["rows"].empty(), !chunks);
  EXPECT_EQ(contains(tuned.err, "no kernels for chunks"), !chunks);

  const std::string other =
      folder().write("by-hand.json", R"({"quire_json": 1, "linear_chunk_rows": 40,
                                         "attend_chunk_rows": 9, "machine": {"cpu": "mine"}})");
  const Ran text = test::quire({"inspect", "-m", tiny_model(), "--tune", other});
  ASSERT_EQ(text.status, 0) << text.err;
  const json shown =
      json::parse(test::quire({"inspect", "-m", tiny_model(), "--tune", other, "--json"}).out);
  if (chunks) {
    EXPECT_TRUE(contains(text.out, "products from 40 rows, attention from 9 rows x heads: " +
                                       other + ", measured on mine"));
    EXPECT_EQ(shown["tune"]["linear_chunk_rows"], 40);
    EXPECT_EQ(shown["tune"]["source"], other);
  } else {
    EXPECT_TRUE(shown["tune"].is_null());
  }
  const Ran exact =
      test::quire({"inspect", "-m", tiny_model(), "--tune", other, "--deterministic"});
  EXPECT_TRUE(contains(exact.out, "the same kernels for every row count"));

  const std::string bad = folder().write("bad.json", R"({"quire_json": 1})");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", "-p", "a"}, {"inspect"}, {"bench", "--tests", "pp8"}}) {
    std::vector<std::string> arguments = command;
    for (const char* more : {"-m", "--tune"}) {
      arguments.push_back(more);
      arguments.push_back(*more == '-' && more[1] == 'm' ? tiny_model() : bad);
    }
    const Ran refused = test::quire(arguments);
    EXPECT_EQ(refused.status, 1) << command[0];
    EXPECT_TRUE(contains(refused.err, "bad.json: linear_chunk_rows is missing")) << refused.err;
  }
}

}  // namespace
}  // namespace quire::cli
