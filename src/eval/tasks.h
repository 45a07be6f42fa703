// Documents with questions, made from a seed: prose to continue, needles in prose, fields of a JSON
// document.  Each task has its own checker.  The formats are such that models of 135 M parameters
// can do them with a full cache; a question in words they cannot answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/random.h"

namespace quire::eval {

// Read after the document; the model should go on with `answer`.
struct Question {
  std::string prompt, answer;
};

struct Document {
  std::string text;
  std::vector<Question> questions;
};

using TokenCount = std::function<std::size_t(std::string_view)>;

// Sentences of a text, in order, each with the blank or line break that follows it.
std::vector<std::string> sentences(std::string_view text);

// F-cont: sentences of `filler` from the `first`-th on (from the beginning again at the end), about
// `tokens` in all, and spread between them `needles` of
//   The special magic number for apple is 48120.
// The question is the sentence up to its number.  REQUIRES: filler is not empty, 1 <= needles <=
// kNeedlesMost.
inline constexpr std::uint32_t kNeedlesMost = 16;
Document needle_document(const std::vector<std::string>& filler, std::size_t first,
                         std::size_t tokens, std::uint32_t needles, Stream stream,
                         const TokenCount& count);

// F-keycont3: an object of numbers, indented by two, about `tokens` long; nested: in objects of at
// most ten, keys unique throughout.  A question is three solved lookups of the same document, a
// line each, and a fourth key.  REQUIRES: questions >= 1.
Document json_document(std::size_t tokens, std::uint32_t questions, bool nested, Stream stream,
                       const TokenCount& count);

// Whether a completion begins with the number asked for: blanks, the answer's digits, no further
// digit.
bool answers(const Question& question, std::string_view completion);

}  // namespace quire::eval
