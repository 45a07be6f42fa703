// Bytes in, whole UTF-8 letters out: a token may be a piece of one.
#pragma once

#include <string>
#include <string_view>

namespace quire::engine {

class Utf8Stream {
 public:
  // Adds bytes and takes out every letter that is complete.  Bytes that can be no letter become
  // U+FFFD, so what comes out is always valid UTF-8.
  std::string push(std::string_view bytes);
  // The end of the text: an unfinished letter becomes U+FFFD.
  std::string finish();

 private:
  std::string held_;
};

}  // namespace quire::engine
