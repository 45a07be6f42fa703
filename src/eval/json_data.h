// Lookups in JSON that somebody has: parts of a file as documents, their own values as answers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "eval/random.h"
#include "eval/tasks.h"
#include "quire/status.h"

namespace quire::eval {

struct JsonShape {
  std::size_t tokens = 1024;    // of a document, at most; at least half of them
  std::uint32_t questions = 8;  // of a document, at most
  std::uint32_t documents = 4;  // at most
};

// Documents are runs of neighbours of one object or list of the file (JSON, or JSON Lines), written
// anew with an indent of two.  A question is the shortest end of a value's path that leads to
// nothing else in the document, as the file would write it; a record of a list is called by its
// first member that no other one has:
//   "ces": {"official": "Aruba"              {"id": 339887544, "start": 1372701600000
// Asked are texts and numbers of 2 to 24 letters that stand in the document once.  Three solved
// ones are its lead, as in tasks that are made (eval/lookup_tasks.h).
//
// kInvalidArgument names the file: it is neither form (with the line), or has no document with four
// such values.
Result<std::vector<Document>> json_documents(std::string_view text, const std::string& name,
                                             const JsonShape& shape, const Stream& stream,
                                             const TokenCount& count);

}  // namespace quire::eval
