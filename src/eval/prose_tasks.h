// Tasks in prose: facts hidden in it, variables that lead to each other, documents that are quoted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/tasks.h"

namespace quire::eval {

// Sentences of a text, in order, each with the blank or line break that follows it.
std::vector<std::string> sentences(std::string_view text);

// Where the prose of a document comes from, and how much there is of it.
struct Prose {
  const std::vector<std::string>& filler;  // sentences; at least one
  std::size_t first = 0;                   // begins there; goes on at the beginning after the last
  std::size_t tokens = 1024;               // of the document, about, with what is hidden in it
  const TokenCount& count;
  std::uint32_t digits = 5;  // of a needle's number: its tokens, where each is one
};

// F-cont: `needles` sentences of the form
//   The special magic number for apple is 48120.
// one in each of as many equal parts of the prose; a single one at `depth`, a share of it, if that
// is given.  The question is the sentence up to its number.  REQUIRES: 1 <= needles <=
// kNeedlesMost, of one digit needles_most(1), as no two are the same; 1 <= digits <= kDigitsMost.
inline constexpr std::uint32_t kNeedlesMost = 16, kDigitsMost = 16;
constexpr std::uint32_t needles_most(std::uint32_t digits) {
  return digits == 1 ? 8 : kNeedlesMost;
}
Document needle_document(const Prose& prose, std::uint32_t needles, std::optional<double> depth,
                         const Stream& stream);

// Variable chains, as RULER's variable tracking has them: VAR apple = 48120, and further on VAR
// lemon = VAR apple, of four variables each, hidden in prose.  The question is the last variable;
// the answer goes back to the number, as a solved chain before it does:
//   VAR piano = VAR desk = VAR drum = VAR river = 60231
// REQUIRES: 2 <= chains <= kChainsMost.
inline constexpr std::uint32_t kChainsMost = 12;
Document chain_document(const Prose& prose, std::uint32_t chains, const Stream& stream);

// Three documents from distant places of the prose, then quotes of 1, 2 and 3, and then of document
// 1 again, from where its first quote stopped.  Only the last quote is scored: what a policy that
// follows the topic has lost by then.
Document drift_document(const Prose& prose);

}  // namespace quire::eval
