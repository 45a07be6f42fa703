// Goal: a probe sums its tables; its file is read exactly, or refused with the byte.
// Method: probes by hand; every byte of a small file changed, every length cut.
#include "roles/probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "roles/confusion.h"
#include "roles/fingerprint.h"

namespace quire::roles {
namespace {

Probe empty_probe(std::vector<Token> ids) {
  Probe probe{.vocabulary = {20, 7}, .model = "a model", .ids = std::move(ids)};
  probe.states.resize(kTextStates * kRoles);
  probe.windows.resize(std::size_t{kProbeWindow} * probe.rows() * kRoles);
  return probe;
}

float& weight(Probe& probe, int offset, std::uint32_t row, Role role) {
  return probe.windows[(static_cast<std::size_t>(offset + 2) * probe.rows() + row) * kRoles +
                       static_cast<std::size_t>(role)];
}

// The file with other bytes at a place, and the fingerprint that goes with them.
std::string patched(std::string bytes, std::size_t at, const void* value, std::size_t size) {
  std::memcpy(&bytes[at], value, size);
  Fingerprint fingerprint;
  fingerprint.add(std::string_view(bytes).substr(0, bytes.size() - 8));
  const std::uint64_t tail = fingerprint.value();
  std::memcpy(&bytes[bytes.size() - 8], &tail, 8);
  return bytes;
}

TEST(Probe, SumsItsTables) {
  Probe probe = empty_probe({5, 9});
  probe.states[static_cast<std::size_t>(Role::kValue)] = 1;                    // state 0
  probe.states[3 * kRoles + static_cast<std::size_t>(Role::kDelimiter)] = 20;  // state 3
  weight(probe, 0, probe.row_of(5), Role::kKey) = 3;                           // a 5 is a key
  weight(probe, 1, probe.row_of(9), Role::kBlank) = 5;  // but before a 9 it is blank
  weight(probe, -1, 1, Role::kHeader) = 9;              // the first token is a header
  weight(probe, 2, 0, Role::kProse) = 4;                // two before an id nobody knows: prose
  const std::vector<Token> tokens = {5, 7, 5, 5, 9, 5, 6, 8};
  const std::vector<std::uint8_t> states = {0, 0, 0, 0, 0, 0, 0, 3};
  EXPECT_EQ(label_tokens(probe, tokens, states),
            (std::vector<Role>{Role::kHeader, Role::kValue, Role::kKey, Role::kBlank, Role::kProse,
                               Role::kProse, Role::kValue, Role::kDelimiter}));
  EXPECT_TRUE(label_tokens(probe, {}, {}).empty());
  EXPECT_EQ(probe.row_of(-1), 0u);
}

TEST(Probe, AVocabularyIsWhatItsTokensSpell) {
  const auto spelling = [](const std::vector<std::string>& words) {
    return vocabulary_of(static_cast<std::uint32_t>(words.size()),
                         [&](Token id) { return words[static_cast<std::size_t>(id)]; });
  };
  EXPECT_EQ(spelling({"a", "bc"}), spelling({"a", "bc"}));
  EXPECT_NE(spelling({"a", "bc"}), spelling({"ab", "c"}));
  EXPECT_NE(spelling({"a", "bc"}), spelling({"bc", "a"}));
  EXPECT_NE(spelling({"a"}), spelling({"a", ""}));
}

TEST(Probe, AFileIsReadAsItWasWritten) {
  Probe probe = empty_probe({0, 3, 19});
  for (std::size_t i = 0; i < probe.windows.size(); ++i) {
    probe.windows[i] = std::sin(static_cast<float>(i));
  }
  probe.states[17] = -1.5f;
  const Result<Probe> same = read_probe(write_probe(probe));
  ASSERT_TRUE(same.ok()) << same.status().message();
  EXPECT_EQ(same->vocabulary, probe.vocabulary);
  EXPECT_EQ(same->model, "a model");
  EXPECT_EQ(same->ids, probe.ids);
  EXPECT_EQ(same->states, probe.states);
  EXPECT_EQ(same->windows, probe.windows);
  probe.model = std::string(1000, 'm');
  EXPECT_EQ(read_probe(write_probe(probe))->model, std::string(kProbeNameMost, 'm'));
}

TEST(Probe, AFileThatIsCutLengthenedOrChangedAnywhereIsRefused) {
  const std::string bytes = write_probe(empty_probe({0, 3, 19}));
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    const Status status = read_probe(std::string_view(bytes).substr(0, cut)).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << cut;
    EXPECT_NE(status.message().find("probe: byte "), std::string::npos) << status.message();
  }
  EXPECT_FALSE(read_probe(bytes + '\0').ok());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int flip : {1, 0x80, 0xFF}) {
      std::string broken = bytes;
      broken[at] = static_cast<char>(broken[at] ^ flip);
      EXPECT_FALSE(read_probe(broken).ok()) << at;
    }
  }
}

TEST(Probe, ValuesThatCannotBeAreRefusedWithTheirByte) {
  const std::string bytes = write_probe(empty_probe({0, 3, 19}));  // its ids begin at byte 39
  const auto refused = [&](std::size_t at, auto value) {
    return read_probe(patched(bytes, at, &value, sizeof(value))).status().message();
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(refused(0, 'Q'), "probe: byte 0: it is no probe of quire train roles");
  EXPECT_EQ(refused(8, std::uint32_t{2}), "probe: byte 8: version 2; this program reads 1");
  EXPECT_EQ(refused(12, std::uint32_t{19}), "probe: byte 47: id 19 is not in the vocabulary");
  EXPECT_EQ(refused(24, std::uint32_t{257}), "probe: byte 24: a name of 257 bytes");
  EXPECT_EQ(refused(28, std::uint32_t{0xFFFFFFFF}), "probe: byte 28: 4294967295 ids");
  EXPECT_EQ(refused(28, std::uint32_t{4}), "probe: byte 28: 4 ids make a file of " +
                                               std::to_string(bytes.size() + 124) +
                                               " bytes; it has " + std::to_string(bytes.size()));
  EXPECT_EQ(refused(43, std::int32_t{0}), "probe: byte 43: id 0 does not ascend");
  EXPECT_EQ(refused(39, std::int32_t{-1}), "probe: byte 39: id -1 is not in the vocabulary");
  EXPECT_EQ(refused(51, nan), "probe: byte 51: a weight is not finite");
  EXPECT_EQ(refused(bytes.size() - 12, infinity),
            "probe: byte " + std::to_string(bytes.size() - 12) + ": a weight is not finite");
  std::string changed = bytes;
  changed.back() ^= 1;
  EXPECT_EQ(read_probe(changed).status().message(),
            "probe: byte " + std::to_string(bytes.size() - 8) +
                ": the fingerprint is not that of the bytes before it");
  EXPECT_NE(read_probe(bytes + std::string(kProbeBytesMost, 'x'))
                .status()
                .message()
                .find("probe: byte 15000000: goes on"),
            std::string::npos);
}

TEST(Probe, TheLargestFileIsRead) {
  std::vector<Token> ids(kProbeIdsMost);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<Token>(i);
  Probe probe = empty_probe(std::move(ids));
  probe.vocabulary.tokens = 1u << 20;
  probe.model = std::string(kProbeNameMost, 'm');
  const std::string bytes = write_probe(probe);
  EXPECT_LE(bytes.size(), kProbeBytesMost);
  EXPECT_GT(bytes.size() + 124, kProbeBytesMost) << "one id more would not fit";
  EXPECT_TRUE(read_probe(bytes).ok());
}

TEST(Confusion, CountsWhatWasTakenForWhat) {
  Confusion confusion;
  EXPECT_TRUE(std::isnan(confusion.f1(Role::kKey)));
  EXPECT_TRUE(std::isnan(confusion.accuracy()));
  constexpr Role k = Role::kKey, v = Role::kValue;
  const std::vector<Role> is = {k, k, k, v}, taken = {k, k, v, v};
  confusion.add(is, taken);
  EXPECT_EQ(confusion.tokens(), 4u);
  EXPECT_EQ(confusion.tokens(k), 3u);
  EXPECT_EQ(confusion.tokens(k, v), 1u);
  EXPECT_EQ(confusion.taken_for(v), 2u);
  EXPECT_DOUBLE_EQ(confusion.f1(k), 2 * 2.0 / (3 + 2));
  EXPECT_DOUBLE_EQ(confusion.f1(v), 2 * 1.0 / (1 + 2));
  EXPECT_DOUBLE_EQ(confusion.accuracy(), 0.75);
  EXPECT_TRUE(std::isnan(confusion.f1(Role::kProse)));
}

}  // namespace
}  // namespace quire::roles
