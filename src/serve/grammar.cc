#include "serve/grammar.h"

#include <algorithm>
#include <cstdint>

#include "serve/json_in.h"

namespace quire::serve {
namespace {

constexpr std::size_t kBytesMost = 16 << 10;
constexpr std::uint32_t kDepthMost = 64, kRepeatMost = 256;

// Spaces are few, so that an answer cannot go on with nothing but spaces for ever.
constexpr const char* kJson = R"gbnf(root ::= object
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws ( string ws ":" ws value ( ws "," ws string ws ":" ws value )* )? ws "}"
array ::= "[" ws ( value ( ws "," ws value )* )? ws "]"
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" [0-9a-fA-F]{4} ) )* "\""
number ::= "-"? ( "0" | [1-9] [0-9]{0,15} ) ( "." [0-9]{1,16} )? ( [eE] [-+]? [0-9]{1,3} )?
ws ::= [ \n]{0,8}
)gbnf";

Status refuse(const std::string& why) {
  return refuse_field("grammar", why);
}

class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text) {}

  Status run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '[') {
        skip_to(c == '"' ? '"' : ']');
        repeated_ = false;
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '{') {
        if (Status status = repetition(); !status.ok()) return status;
      } else {
        if (c == '(' && ++depth_ > kDepthMost) {
          return refuse("brackets over " + std::to_string(kDepthMost) + " deep");
        }
        if (c == ')' && depth_ > 0) --depth_;
        if (repeated_ && (c == '*' || c == '+' || c == '?')) return twice();
        repeated_ = repeated_ && (c == ' ' || c == '\t' || c == '\n' || c == '\r');
        ++at_;
      }
    }
    return {};
  }

 private:
  static Status twice() {
    return refuse("a repetition of a repetition; put the first in round brackets");
  }

  void skip_to(char end) {
    for (++at_; at_ < text_.size() && text_[at_] != end; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    ++at_;
  }

  void spaces() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) {
      ++at_;
    }
  }

  // kRepeatMost + 1: over it.
  std::uint32_t number() {
    std::uint32_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = std::min(value * 10 + static_cast<std::uint32_t>(text_[at_] - '0'), kRepeatMost + 1);
    }
    return value;
  }

  Status repetition() {
    if (repeated_) return twice();
    ++at_;
    spaces();
    const std::uint32_t least = number();
    std::uint32_t most = least;
    spaces();
    if (at_ < text_.size() && text_[at_] == ',') {
      ++at_;
      spaces();
      const std::size_t before = at_;
      most = number();
      if (at_ == before) most = least;
      spaces();
    }
    if (at_ >= text_.size() || text_[at_] != '}') return refuse("{ without its }");
    ++at_;
    if (least > kRepeatMost || most > kRepeatMost) {
      return refuse("a repetition of over " + std::to_string(kRepeatMost));
    }
    if (most < least) return refuse("a repetition of at most less than at least");
    repeated_ = true;
    return {};
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  std::uint32_t depth_ = 0;
  bool repeated_ = false;  // a {} has just been, spaces apart
};

}  // namespace

Status check_grammar(std::string_view text) {
  if (text.empty()) return refuse("empty");
  if (text.size() > kBytesMost) {
    return refuse(std::to_string(text.size()) + " bytes, over the limit of " +
                  std::to_string(kBytesMost));
  }
  if (text.find('\0') != std::string_view::npos) return refuse("a zero byte");
  return Scan(text).run();
}

const char* json_grammar() {
  return kJson;
}

}  // namespace quire::serve
