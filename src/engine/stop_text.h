// Texts that end an answer, also where they lie over the border of two tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire::engine {

class StopText {
 public:
  // Empty texts are ignored.
  explicit StopText(std::vector<std::string> stops);

  // Adds text and takes out what can be no part of a stop text any more.
  std::string push(std::string_view text);
  // A stop text was met, the first to be complete: what push() returned then ends before it, and
  // nothing follows.
  bool stopped() const { return stopped_; }
  // The end of the answer: what was held back.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace quire::engine
