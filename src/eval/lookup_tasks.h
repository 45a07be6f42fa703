// Records of a key and a number, written in one of several forms; a question is a key of them.
#pragma once

#include <cstdint>

#include "eval/tasks.h"

namespace quire::eval {

enum class Form : std::uint8_t {
  kIndented,    // JSON, indented by two
  kCompact,     // JSON on one line
  kXml,         // an element a record
  kTable,       // of markdown
  kDictionary,  // loud parrot: 6023
  kLines,       // as LongChat's: line loud-parrot: REGISTER_CONTENT is <42527>
  kKeys,        // near-identical keys, as RULER's multi-key 3: 9f86d081884c7d65 : 60231745
};

// What a question is, and what its answer.
enum class Asks : std::uint8_t {
  kValue,    // a key: its value
  kKey,      // a value: its key, 60231: "loud_parrot"
  kNextKey,  // a list of the first keys, a line each: the one that follows; sixteen are asked, at
             // most
};

struct LookupShape {
  Form form = Form::kIndented;
  bool nested = false;        // JSON, XML, table: in groups of at most ten, keys unique throughout
  std::size_t tokens = 1024;  // of the document, at most
  std::uint32_t questions = 8;
  Asks asks = Asks::kValue;  // others: of the indented form
};

// Solved lookups of the same document, a line each, stand before all questions (F-keycont3: three
// in JSON, XML and tables; F-lookup2: two in a dictionary; none of lines and keys, whose documents
// look like them); what they ask is not asked again.  Keys are asked of the schema's side: what a
// budget that favours values must lose.  A document that is too short for them all
// asks fewer questions, at least one.  REQUIRES: questions >= 1; nested and asks only where they
// say so.
Document lookup_document(const LookupShape& shape, const Stream& stream, const TokenCount& count);

}  // namespace quire::eval
