// What a probe is told of a text beside its tokens' ids: the last mark of structure to the left,
// and whether a string in quotes is open.  One pass, a few instructions a byte, no stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace quire::roles {

enum class Mark : std::uint8_t {
  kNone,  // also behind an empty line
  kObject,
  kArray,
  kComma,
  kArrayComma,  // a comma, the last bracket before it being [
  kColon,
  kClosed,   // } or ], or the > of an element's end
  kTag,      // <
  kEndTag,   // </
  kContent,  // the > of an element's beginning
  kBar,
  kHeadBar,  // of a line, the one before it having none
};
constexpr std::size_t kMarks = 12, kTextStates = 2 * kMarks;

class TextState {
 public:
  void read(std::string_view bytes) {
    for (const char byte : bytes) read(byte);
  }
  Mark mark() const { return mark_; }
  bool quoted() const { return quoted_; }
  // Below kTextStates.
  std::uint8_t value() const {
    return static_cast<std::uint8_t>(2 * static_cast<unsigned>(mark_) + (quoted_ ? 1 : 0));
  }

 private:
  void read(char byte);
  void see(char byte);

  Mark mark_ = Mark::kNone;
  bool quoted_ = false, escaped_ = false;
  bool array_ = false;                      // the last bracket was [
  bool bars_ = false, bars_above_ = false;  // this line has one; the line before it had
  char last_ = 0;
};

// The state before each token: token i covers bytes [ends[i - 1], ends[i]), the first from 0.
// REQUIRES: as label_tokens (roles/roles.h).
std::vector<std::uint8_t> text_states(std::string_view text, std::span<const std::size_t> ends);

}  // namespace quire::roles
