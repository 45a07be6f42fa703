// Goal: the keep found takes the bytes nearest to the target, and asks little.
// Method: made-up cost functions (lines, steps of blocks, constants) against a search of every
// value.

#include "eval/keep_search.h"

#include <gtest/gtest.h>

#include "eval/random.h"

namespace quire::eval {
namespace {

struct Found {
  Kept kept;
  int asked = 0;
};

Found find(const std::function<std::uint64_t(std::uint32_t)>& bytes, std::uint64_t target,
           std::uint32_t most, std::uint32_t guess, std::uint32_t grain) {
  Found found;
  const auto kept = find_keep(
      [&](std::uint32_t entries) -> Result<std::uint64_t> {
        ++found.asked;
        return bytes(entries);
      },
      target, 1, most, guess, grain);
  EXPECT_TRUE(kept.ok());
  found.kept = *kept;
  return found;
}

TEST(KeepSearch, StepsOfBlocksAreFilled) {
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Stream stream = Stream(17).of(i);
    const std::uint64_t fixed = stream.below(5000, 0), each = 50 + stream.below(200, 1);
    const auto bytes = [&](std::uint32_t entries) {
      return fixed + (entries + 15) / 16 * 16 * each;
    };
    const std::uint64_t target = bytes(1024) * (10 + stream.below(80, 2)) / 100;
    const auto guess = static_cast<std::uint32_t>(1 + stream.below(1024, 3));
    const Found found = find(bytes, target, 1024, guess, 16);
    ASSERT_TRUE(found.kept.reachable);
    EXPECT_EQ(found.kept.bytes, bytes(found.kept.entries));
    EXPECT_EQ(found.kept.entries % 16, 0u);
    const double off =
        std::abs(static_cast<double>(found.kept.bytes) - static_cast<double>(target));
    EXPECT_LE(off, 16.0 * static_cast<double>(each)) << "within one block";
    EXPECT_LE(found.asked, 10);
  }
}

TEST(KeepSearch, LinesAreHitToATenthOfAPercent) {
  const auto bytes = [](std::uint32_t entries) { return 1000 + std::uint64_t{entries} * 23040; };
  const Found found = find(bytes, 4'000'000, 4096, 700, 1);
  EXPECT_NEAR(static_cast<double>(found.kept.bytes), 4e6, 4e6 * 0.003);
  EXPECT_LE(found.asked, 10);
}

TEST(KeepSearch, AGoodGuessIsAskedOnce) {
  const auto bytes = [](std::uint32_t entries) { return std::uint64_t{entries} * 100; };
  EXPECT_EQ(find(bytes, 25600, 1024, 256, 16).asked, 1);
}

TEST(KeepSearch, WhatCannotBeSmallEnoughSaysSo) {
  const Found found = find([](std::uint32_t) { return std::uint64_t{1000}; }, 500, 64, 16, 1);
  EXPECT_FALSE(found.kept.reachable);
  EXPECT_EQ(found.kept.entries, 1u);
  EXPECT_EQ(found.kept.bytes, 1000u);
}

TEST(KeepSearch, RefusalsAreHandedOn) {
  const auto kept = find_keep(
      [](std::uint32_t) -> Result<std::uint64_t> { return Status(Code::kOutOfMemory, "full"); }, 10,
      1, 8, 4, 1);
  EXPECT_EQ(kept.status().code(), Code::kOutOfMemory);
}

}  // namespace
}  // namespace quire::eval
