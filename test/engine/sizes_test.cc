// Goal: sizes and keep targets are read exactly, and everything else is refused.
// Method: a table of texts with their values, a table of wrong ones, and a round trip.

#include <gtest/gtest.h>

#include "engine/generate.h"

namespace quire::engine {
namespace {

TEST(ParseBytes, ReadsUnits) {
  const std::pair<const char*, std::size_t> cases[] = {
      {"4096", 4096},   {"1B", 1},    {"2KiB", 2048},   {"64MiB", 64u << 20}, {"1.5GiB", 3u << 29},
      {"3M", 3u << 20}, {"2k", 2048}, {"1G", 1u << 30}, {"0.5KiB", 512},      {"1e3", 1000},
  };
  for (const auto& [text, bytes] : cases) {
    const Result<std::size_t> read = parse_bytes(text);
    ASSERT_TRUE(read.ok()) << text;
    EXPECT_EQ(*read, bytes) << text;
  }
}

TEST(ParseBytes, RefusesEverythingElse) {
  for (const char* text : {"", "MiB", "64 MiB", "64MB", "-1", "-0", "0", "nan", "inf", "1e30",
                           "0x10", "64MiBs", "1,5GiB", "0.1"}) {
    const Result<std::size_t> read = parse_bytes(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), Code::kInvalidArgument);
    EXPECT_NE(read.status().message().find("\"" + std::string(text) + "\""), std::string::npos);
  }
}

TEST(ParseKeep, ReadsEveryUnitAndPrintsItBack) {
  const std::pair<const char*, Keep> cases[] = {
      {"pool", {Keep::Unit::kPool, 0}},         {"1024tok", {Keep::Unit::kTokens, 1024}},
      {"25%", {Keep::Unit::kPercent, 25}},      {"12.5%", {Keep::Unit::kPercent, 12.5}},
      {"16MiB", {Keep::Unit::kBytes, 1 << 24}}, {"100B", {Keep::Unit::kBytes, 100}},
  };
  for (const auto& [text, keep] : cases) {
    const Result<Keep> read = parse_keep(text);
    ASSERT_TRUE(read.ok()) << text;
    EXPECT_EQ(read->unit, keep.unit) << text;
    EXPECT_EQ(read->amount, keep.amount) << text;
    EXPECT_EQ(to_string(*read), text);
  }
}

TEST(ParseKeep, RefusesEverythingElse) {
  for (const char* text : {"", "1024", "0tok", "1.5tok", "-5tok", "5e9tok", "0%", "101%", "-1%",
                           "nan%", "tok", "25 %", "16MB", "all"}) {
    EXPECT_FALSE(parse_keep(text).ok()) << text;
  }
}

TEST(BytesText, IsReadBackExactly) {
  for (std::size_t bytes :
       {std::size_t{1}, std::size_t{1000}, std::size_t{1024}, std::size_t{65537},
        std::size_t{3} << 20, std::size_t{5} << 30, std::size_t{1536} << 20}) {
    EXPECT_EQ(*parse_bytes(bytes_text(bytes)), bytes) << bytes_text(bytes);
  }
}

}  // namespace
}  // namespace quire::engine
