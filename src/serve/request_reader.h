// Bytes of a connection into one request, within the limits.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "serve/http.h"
#include "serve/limits.h"

namespace quire::serve {

class RequestReader {
 public:
  enum class Stage : std::uint8_t {
    kHeader,   // needs more
    kBody,     // the head is there; the body needs more
    kWhole,    // all of it
    kRefused,  // refusal() says why; nothing after it can be understood
  };

  explicit RequestReader(const Limits& limits);
  ~RequestReader();

  // Takes what it can use and returns how much that was; what is left must come again, with more
  // behind it if the stage says so.  It stops once behind the head, and behind the request.
  std::size_t put(std::string_view bytes);

  Stage stage() const { return stage_; }
  const Head& head() const { return head_; }  // from kBody on
  const Reply& refusal() const { return refusal_; }
  std::string take_body();

 private:
  struct Parser;
  void read_head();
  void refuse(int status, const std::string& why);

  const Limits& limits_;
  std::unique_ptr<Parser> parser_;
  Stage stage_ = Stage::kHeader;
  Head head_;
  Reply refusal_;
};

}  // namespace quire::serve
