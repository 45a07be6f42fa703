// Documents with questions that a user brings: one JSON object a line, in the shapes of sets that
// people have.  A shape is told by its fields; others may be there and are ignored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eval/tasks.h"
#include "quire/status.h"

namespace quire::eval {

//  | shape                     | fields                                                        |
//  |---------------------------|---------------------------------------------------------------|
//  | quire                     | document, questions: [{prompt, answer}]                       |
//  | RULER (arXiv 2404.06654)  | input, outputs: [text ...], answer_prefix (may lack)          |
//  | LongChat lines            | prompt, random_idx: [line, ...], expected_number              |
//  | lost in the middle (2307.03172), keys | ordered_kv_records: [[key, value] ...], key, value |
//  | LongBench (2308.14508)    | context, input, answers: [text ...]                           |
//
// Where document and question are one text (RULER, LongChat) the question is its last line.  The
// answer must come at once to be found by teacher forcing: LongChat's question goes on with the
// beginning of the line it asks for, that of lost in the middle with its key, as a solved lookup
// would.  Of several outputs of RULER all are asked, with commas; of LongBench's answers the first.
//
// kInvalidArgument names file, line and field: no shape, a field of another type, an empty text,
// a file without a line.
Result<std::vector<Document>> read_documents(std::string_view text, const std::string& name);

}  // namespace quire::eval
