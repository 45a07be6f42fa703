// Structured texts made from a seed, to train and judge a role probe on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "eval/random.h"

namespace quire::eval {

enum class Corpus : std::uint8_t {
  kJson,         // trees of depth 3, records, lists of records; indented by two or four
  kJsonCompact,  // the same on one line
  kXml,          // the same as elements, with or without attributes
  kTable,        // of markdown
  kMixed,        // prose, alone or around one of the others, fenced or not
};
inline constexpr std::size_t kCorpora = 5;
const char* name_of(Corpus corpus);

// Documents until there are so many bytes, and a question behind them.  Names and values are of
// many kinds.  `form`: of the documents in a mixed text, kMixed: none; else the corpus.  `prose`:
// sentences, for mixed texts and for values that are text; at least one.
struct CorpusText {
  Corpus corpus = Corpus::kMixed, form = Corpus::kMixed;
  std::size_t bytes = 0;
};
std::string corpus_text(const CorpusText& what, const Stream& stream,
                        std::span<const std::string> prose);

}  // namespace quire::eval
