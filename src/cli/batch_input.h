// The requests of `quire batch`: a file of lines {custom_id, method, url, body}.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "quire/status.h"
#include "serve/openai_body.h"

namespace quire::cli {

struct BatchLine {
  std::string custom_id;
  serve::Endpoint endpoint = serve::Endpoint::kChat;
  serve::Json body;
};

class BatchInput {
 public:
  // Reads the file once: where its lines are, and their custom_ids.  kInvalidArgument: a custom_id
  // that is there twice (both lines are named); kIo: the file cannot be read.
  static Result<BatchInput> open(const std::string& path);

  // Lines that are not blank.
  std::size_t size() const { return lines_.size(); }
  std::size_t number(std::size_t i) const { return lines_[i].number; }  // from 1
  // Empty where the line has none that can be read.
  const std::string& custom_id(std::size_t i) const { return lines_[i].custom_id; }
  // "line 7: url: ..." of a line that is no request.
  Result<BatchLine> read(std::size_t i);

 private:
  struct Line {
    std::size_t number;
    std::streamoff begin;
    std::size_t bytes;
    std::string custom_id;
  };

  Result<serve::Json> parse(const Line& line);

  std::string path_;
  std::ifstream file_;
  std::vector<Line> lines_;
};

}  // namespace quire::cli
