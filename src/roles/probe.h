// Roles without a parser: a linear probe over the ids of a token and its neighbours.
//
// Multinomial logistic regression (role-conditional budgets, arXiv 2607.13205).  Token i has the
// role r with the largest
//
//   states[state of i][r] + sum over o = -2 ... 2 of windows[o + 2][row of id i + o][r],
//
// ties the lower one.  The ids are the paper's; the state of the text before a token
// (roles/text_state.h) is ours: five tokens cannot tell a key from the words of a value.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"
#include "quire/types.h"
#include "roles/text_state.h"

namespace quire::roles {

constexpr std::uint32_t kProbeReach = 2, kProbeWindow = 2 * kProbeReach + 1;

// What ids mean.  Models with equal vocabularies can share a probe.
struct Vocabulary {
  std::uint32_t tokens = 0;
  std::uint64_t fingerprint = 0;  // of what they spell
  friend bool operator==(const Vocabulary&, const Vocabulary&) = default;
};
// `piece`: what a token spells, of each of 0 ... tokens - 1.
Vocabulary vocabulary_of(std::uint32_t tokens, const std::function<std::string(Token)>& piece);

struct Probe {
  Vocabulary vocabulary{};
  std::string model{};           // it was trained for, for people
  std::vector<Token> ids{};      // ascending: those that training saw
  std::vector<float> states{};   // [kTextStates][kRoles]
  std::vector<float> windows{};  // [kProbeWindow][rows()][kRoles]

  // Row 0: every other id; row 1: beyond the text; row 2 + i: ids[i].
  std::uint32_t rows() const { return static_cast<std::uint32_t>(ids.size()) + 2; }
  std::uint32_t row_of(Token id) const;
};

// REQUIRES: a state a token (text_states).
std::vector<Role> label_tokens(const Probe& probe, std::span<const Token> tokens,
                               std::span<const std::uint8_t> states);

// --- files ---

// Little-endian, one part behind the other:
//
//   byte  0  "quireprb"
//         8  u32 version, 1
//        12  u32 tokens of the vocabulary
//        16  u64 its fingerprint
//        24  u32 bytes of the model's name; u32 n, the ids that are stored
//        32  the name; u32 id x n; f32 states; f32 windows
//            u64 fingerprint of all bytes before
constexpr std::size_t kProbeBytesMost = 15'000'000;
constexpr std::size_t kProbeNameMost = 256;
// Ids of a file that is not larger, whatever its name.
constexpr std::size_t kProbeIdsMost =
    (kProbeBytesMost - 40 - kProbeNameMost - 4 * kRoles * (kTextStates + 2 * kProbeWindow)) /
    (4 + 4 * kRoles * kProbeWindow);

// REQUIRES: at most kProbeIdsMost ids.  A longer name is cut.
std::string write_probe(const Probe& probe);
// kCorrupt names the byte and what is wrong there; kUnsupported: another version.
Result<Probe> read_probe(std::string_view bytes);

}  // namespace quire::roles
