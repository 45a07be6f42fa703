// Goal: text comes out in whole letters, is always valid UTF-8, and loses nothing.
// Method: letters cut at every byte; the ill-formed sequences of the Unicode standard; random
// bytes checked by an independent decoder.  A failure prints its seed; rerun with QUIRE_SEED.

#include "engine/utf8.h"

#include <gtest/gtest.h>

#include <random>

#include "support/seed.h"

namespace quire::engine {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

std::string whole(std::string_view bytes) {
  Utf8Stream stream;
  const std::string letters = stream.push(bytes);
  return letters + stream.finish();
}

// Decodes to code points the long way; -1 when the text is ill-formed.
int letters_in(const std::string& text) {
  int count = 0;
  for (std::size_t i = 0; i < text.size(); ++count) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int more = lead < 0x80       ? 0
                     : lead >> 5 == 6  ? 1
                     : lead >> 4 == 14 ? 2
                     : lead >> 3 == 30 ? 3
                                       : -1;
    if (more < 0 || i + static_cast<std::size_t>(more) >= text.size()) return -1;
    long value = more == 0 ? lead : lead & (0x3F >> more);
    for (int j = 1; j <= more; ++j) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<std::size_t>(j)]);
      if (next >> 6 != 2) return -1;
      value = value << 6 | (next & 0x3F);
    }
    const long least[] = {0, 0x80, 0x800, 0x10000};
    if (value < least[more] || value > 0x10FFFF || (0xD800 <= value && value < 0xE000)) return -1;
    i += static_cast<std::size_t>(more) + 1;
  }
  return count;
}

TEST(Utf8Stream, HoldsBackUnfinishedLettersAtEveryCut) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";  // a é € 😀 z
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Utf8Stream stream;
    const std::string first = stream.push(text.substr(0, cut));
    EXPECT_GE(letters_in(first), 0) << "cut at " << cut;
    EXPECT_EQ(first + stream.push(text.substr(cut)), text);
    EXPECT_EQ(stream.finish(), "");
  }
}

TEST(Utf8Stream, ReplacesWhatCanBeNoLetter) {
  EXPECT_EQ(whole("\x80"
                  "a"),
            kBad + "a");
  EXPECT_EQ(whole("\xC0\xAF"), kBad + kBad);             // an overlong slash
  EXPECT_EQ(whole("\xED\xA0\x80"), kBad + kBad + kBad);  // a surrogate
  EXPECT_EQ(whole("\xF5"), kBad);
  EXPECT_EQ(whole("\xE2\x82"
                  "a"),
            kBad + "a");
  EXPECT_EQ(whole("\xE2\x82"), kBad);  // the text ends inside a letter
}

TEST(Utf8Stream, RandomBytesComeOutValid) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2'000; ++round) {
    Utf8Stream stream;
    std::string out;
    for (std::uint64_t piece = random() % 6; piece-- > 0;) {
      std::string bytes;
      for (std::uint64_t i = random() % 5; i-- > 0;) {
        bytes += static_cast<char>(random() % 2 == 0 ? 0x80 | random() % 128 : random() % 128);
      }
      out += stream.push(bytes);
    }
    out += stream.finish();
    ASSERT_GE(letters_in(out), 0);
  }
}

}  // namespace
}  // namespace quire::engine
