// Goal: digests are those of FIPS 180-4, however the bytes come.
// Method: the standard's example; pieces against the whole.
#include "engine/sha256.h"

#include <gtest/gtest.h>

namespace quire::engine {
namespace {

TEST(Sha256Test, TheStandardsExample) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, PiecesAreTheWholeAndEveryDigestBeginsAnew) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + i % 26);
  Sha256 hash;
  for (const std::size_t size : {1u, 7u, 64u, 999u, 1000u}) {
    for (std::size_t at = 0; at < text.size(); at += size) {
      hash.add(std::as_bytes(std::span(text).subspan(at, std::min(size, text.size() - at))));
    }
    EXPECT_EQ(hex(hash.finish()), sha256_hex(text)) << size;
  }
}

}  // namespace
}  // namespace quire::engine
