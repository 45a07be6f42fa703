// Goal: a stop text ends the answer before it, wherever token borders lie, and only text that may
//   yet become one is held back.
// Method: cases by hand; then random texts cut at random places beside a search in the whole text.

#include "engine/stop_text.h"

#include <gtest/gtest.h>

#include <random>

#include "support/seed.h"

namespace quire::engine {
namespace {

TEST(StopText, HoldsBackOnlyWhatMayBecomeOne) {
  StopText stop({"###", "END"});
  EXPECT_EQ(stop.push("a#"), "a");
  EXPECT_EQ(stop.push("b"), "#b");
  EXPECT_EQ(stop.push("E#"), "E");
  EXPECT_EQ(stop.push("#"), "");
  EXPECT_FALSE(stop.stopped());
  EXPECT_EQ(stop.push("#x"), "");
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(stop.push("more"), "");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopText, GivesTheRestAtTheEnd) {
  StopText stop({"END"});
  EXPECT_EQ(stop.push("the EN"), "the ");
  EXPECT_EQ(stop.finish(), "EN");
  EXPECT_FALSE(stop.stopped());
}

TEST(StopText, TheFirstToBeCompleteCountsAndOfThoseTheLongest) {
  StopText stop({"d", "bcd", "", "bcde"});
  EXPECT_EQ(stop.push("abcdef"), "a");
  EXPECT_TRUE(stop.stopped());
}

TEST(StopText, AgreesWithASearchInTheWholeText) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 5000; ++round) {
    const auto text_of = [&](std::size_t length) {
      std::string text(length, ' ');
      for (char& c : text) c = static_cast<char>('a' + random() % 2);
      return text;
    };
    const std::string whole = text_of(random() % 40);
    const std::vector<std::string> stops = {text_of(1 + random() % 6), text_of(1 + random() % 9)};
    std::size_t end = std::string::npos;
    for (std::size_t length = 0; length <= whole.size() && end == std::string::npos; ++length) {
      for (const std::string& stop : stops) {
        if (whole.substr(0, length).ends_with(stop)) end = std::min(end, length - stop.size());
      }
    }
    StopText stop(stops);
    std::string out;
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t length = 1 + random() % 5;
      out += stop.push(whole.substr(at, length));
      at += length;
    }
    EXPECT_EQ(stop.stopped(), end != std::string::npos);
    out += stop.finish();
    EXPECT_EQ(out, whole.substr(0, end));
  }
}

}  // namespace
}  // namespace quire::engine
