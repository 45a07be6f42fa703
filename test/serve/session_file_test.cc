// Goal: a session is read as it was written, and one that is torn, damaged, of another cache or
// made
//   up is refused by field and offset before any of it is used.
// Method: a small session in memory; every byte flipped, every length, every field changed with its
//   digest made right again.

#include "serve/session_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace quire::serve {
namespace {

constexpr std::uint32_t kUnitTokens = 8;

// Units grow by a byte each, so that no two are alike in size.
SessionLayout layout() {
  SessionLayout layout{.key_type = KvType::kF16,
                       .value_type = KvType::kF32,
                       .block_tokens = kUnitTokens,
                       .identity = {},
                       .unit_bytes = [](std::uint32_t, std::uint32_t begin, std::uint32_t end) {
                         std::size_t bytes = 0;
                         for (std::uint32_t i = begin; i < end; ++i) bytes += 5 + i;
                         return bytes;
                       }};
  layout.identity.fill(std::byte{0x1D});
  return layout;
}

SessionText text(std::uint32_t units) {
  SessionText text;
  for (std::uint32_t i = 0; i < units * kUnitTokens; ++i) {
    text.tokens.push_back(static_cast<Token>(1000 + i));
  }
  text.salt.fill(std::byte{0x5A});
  text.text.fill(std::byte{0x7E});
  return text;
}

class MemorySource final : public SessionSource {
 public:
  explicit MemorySource(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> out) override {
    if (offset + out.size() > bytes_.size()) return {Code::kIo, "beyond the end"};
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  const std::vector<std::byte> bytes_;
};

std::vector<std::byte> payload(std::uint32_t units) {
  std::vector<std::byte> bytes(layout().unit_bytes(units, 0, units));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

std::vector<std::byte> written(std::uint32_t units) {
  const SessionLayout shape = layout();
  std::vector<std::byte> out;
  SessionWriter writer(shape, [&](std::span<const std::byte> bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
    return Status();
  });
  const std::vector<std::byte> units_bytes = payload(units);
  EXPECT_TRUE(writer.begin(text(units)).ok());
  const std::size_t first = shape.unit_bytes(units, 0, 1);
  EXPECT_TRUE(writer.add(std::span(units_bytes).first(first), 1).ok());
  EXPECT_TRUE(writer.add(std::span(units_bytes).subspan(first), units - 1).ok());
  EXPECT_EQ(out.size(), session_bytes(shape, units));
  return out;
}

// Reads all of it; the text and payload, if it is sound.
Status read_all(std::vector<std::byte> bytes, const SessionLayout& shape = layout(),
                std::vector<std::byte>* units = nullptr) {
  MemorySource source(std::move(bytes));
  Result<SessionReader> reader = SessionReader::open(source, shape);
  if (!reader.ok()) return reader.status();
  std::vector<std::byte> all;
  return reader->read(reader->units(), units != nullptr ? *units : all);
}

TEST(SessionFile, WhatWasWrittenIsRead) {
  for (const std::uint32_t units : {1u, 2u, 7u}) {
    MemorySource source(written(units));
    const SessionLayout shape = layout();
    Result<SessionReader> reader = SessionReader::open(source, shape);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    EXPECT_EQ(reader->units(), units);
    EXPECT_EQ(reader->text().tokens, text(units).tokens);
    EXPECT_EQ(reader->text().salt, text(units).salt);
    EXPECT_EQ(reader->text().text, text(units).text);
    for (int round = 0; round < 2; ++round) {
      std::vector<std::byte> all, piece;
      for (std::uint32_t i = 0; i < units; ++i) {
        ASSERT_TRUE(reader->read(1, piece).ok());
        all.insert(all.end(), piece.begin(), piece.end());
      }
      EXPECT_EQ(all, payload(units));
      reader->rewind();
    }
  }
}

TEST(SessionFile, EveryFlippedByteIsSeen) {
  const std::vector<std::byte> good = written(3);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const unsigned flip : {0x01u, 0x80u, 0xFFu}) {
      std::vector<std::byte> bad = good;
      bad[at] ^= static_cast<std::byte>(flip);
      const Status status = read_all(std::move(bad));
      ASSERT_FALSE(status.ok()) << "byte " << at;
      EXPECT_TRUE(status.message().starts_with("session: ")) << status.message();
    }
  }
}

TEST(SessionFile, EveryOtherLengthIsSeen) {
  const std::vector<std::byte> good = written(2);
  for (std::size_t length = 0; length < good.size(); ++length) {
    const Status status = read_all({good.begin(), good.begin() + static_cast<long>(length)});
    EXPECT_EQ(status.code(), Code::kCorrupt) << length;
    EXPECT_TRUE(status.message().starts_with("session: size: ")) << status.message();
  }
  std::vector<std::byte> longer = good;
  longer.push_back({});
  EXPECT_EQ(read_all(longer).code(), Code::kCorrupt);
}

// The head's digest, of a head that was changed.
void sign(std::vector<std::byte>& bytes, std::size_t tokens) {
  const std::size_t end = 128 + tokens * sizeof(Token);
  const Digest digest = engine::sha256(std::span(bytes).first(end));
  std::memcpy(bytes.data() + end, digest.data(), digest.size());
}

TEST(SessionFile, WhatIsAnothersIsNamedWithItsOffset) {
  const auto said = [](std::size_t at, std::uint32_t value) {
    std::vector<std::byte> bytes = written(2);
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    sign(bytes, 2 * kUnitTokens);
    return read_all(std::move(bytes)).message();
  };
  EXPECT_EQ(said(0, 0), "session: magic at offset 0: this is no session of quire");
  EXPECT_EQ(said(8, 2), "session: version at offset 8: 2, this program reads 1");
  EXPECT_EQ(said(12, 1), "session: type of K at offset 12: bf16, this cache has f16");
  EXPECT_EQ(said(16, 9), "session: type of V at offset 16: unknown, this cache has f32");
  EXPECT_EQ(said(24, 0), "session: units at offset 24: 0 tokens, of 1 to 16777216");
  EXPECT_EQ(said(24, ~0u), "session: units at offset 24: 34359738360 tokens, of 1 to 16777216");
  EXPECT_TRUE(said(24, 1000).starts_with("session: size: ")) << said(24, 1000);
  EXPECT_TRUE(said(24, 1).starts_with("session: checksum at offset 160: ")) << said(24, 1);
  EXPECT_EQ(said(28, 1), "session: zero at offset 28: it is not");
  EXPECT_TRUE(said(40, 0).starts_with("session: identity at offset 32: of another model"));

  // A head as large, of other units: tokens of a unit.
  std::vector<std::byte> bytes = written(2);
  const std::uint32_t tokens = 16, units = 1;
  std::memcpy(bytes.data() + 20, &tokens, 4);
  std::memcpy(bytes.data() + 24, &units, 4);
  sign(bytes, 16);
  EXPECT_EQ(read_all(bytes).message(),
            "session: tokens of a unit at offset 20: 16, this cache has 8");
}

TEST(SessionFile, UnitsOfOtherSessionsAreSeen) {
  // The same unit, signed, behind another head.
  const std::vector<std::byte> one = written(1);
  std::vector<std::byte> other = one;
  other[130] ^= std::byte{1};  // a token
  sign(other, kUnitTokens);
  EXPECT_EQ(read_all(other).message(), "session: unit at offset 192: unit 0 is damaged");
}

TEST(SessionFile, WhatCannotBeWrittenIsSaidAtOnce) {
  const SessionLayout shape = layout();
  for (int writes = 0; writes < 9; ++writes) {
    int left = writes;
    SessionWriter writer(shape, [&](std::span<const std::byte>) {
      return left-- > 0 ? Status() : Status(Code::kIo, "full");
    });
    Status status = writer.begin(text(3));
    const std::vector<std::byte> bytes = payload(3);
    if (status.ok()) status = writer.add(bytes, 3);
    EXPECT_EQ(status.message(), "full") << writes;
    EXPECT_EQ(left, -1) << "nothing after it";
  }
}

}  // namespace
}  // namespace quire::serve
