// The results of `quire batch`: a file that only grows, a line a request, each on disk before the
// next request is told finished.  After a kill it says what is done already.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>

#include "quire/status.h"

namespace quire::cli {

class BatchOutput {
 public:
  // Opens or creates the file, and reads what is there.  A last line without its end is what a kill
  // left: it is cut off.  kCorrupt: another line is no result (the message names it); kIo: the
  // system refuses, or another process writes the file.
  static Result<BatchOutput> open(const std::string& path);
  BatchOutput(BatchOutput&& other) noexcept;
  BatchOutput& operator=(BatchOutput&&) = delete;
  ~BatchOutput();

  // Whether a line with this custom_id, or with this id where it has none, is there.
  bool has(const std::string& custom_id, const std::string& id) const;
  std::size_t found() const { return done_.size(); }  // lines that were there
  bool torn() const { return torn_; }                 // and one that was cut off
  // Appends the line and waits until it is on disk.
  Status append(const nlohmann::ordered_json& line);

 private:
  BatchOutput(std::string path, int file) : path_(std::move(path)), file_(file) {}
  Status read();
  Status system_error(const char* what) const;

  std::string path_;
  int file_;
  bool torn_ = false;
  std::unordered_set<std::string> done_;  // "c" + custom_id, or "i" + id
};

}  // namespace quire::cli
