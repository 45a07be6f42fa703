// A log of finished inputs, one JSON object a line, that a later run continues.
#pragma once

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quire/status.h"

namespace quire::eval {

using Json = nlohmann::ordered_json;

class Log {
 public:
  // The first line is `header`: what must be equal for measurements to belong together.  A file
  // that is there is continued: its header must be this one (kInvalidArgument names the first key
  // that differs and both values); an unfinished last line, as a kill leaves it, is taken off; any
  // other line that is no JSON object is kCorrupt with its number.  An empty path: nothing is kept.
  static Result<Log> open(const std::string& path, const Json& header);

  // The lines after the header that were there.
  const std::vector<Json>& finished() const { return finished_; }
  // Written and flushed before it returns; kIo when it could not be.
  Status append(const Json& line);

 private:
  std::string path_;
  std::vector<Json> finished_;
  std::ofstream out_;
};

// A 64-bit fingerprint of a file's bytes, as 16 hexadecimal digits: tells files apart, is no
// protection against a forger.
Result<std::string> file_fingerprint(const std::string& path);

}  // namespace quire::eval
