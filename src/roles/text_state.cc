#include "roles/text_state.h"

#include "quire/check.h"

namespace quire::roles {

void TextState::read(char byte) {
  if (byte == '\n') {  // no string goes over it: where quotes are not paired, parity begins anew
    quoted_ = escaped_ = false;
    if (last_ == '\n') mark_ = Mark::kNone, array_ = false;
    bars_above_ = bars_;
    bars_ = false;
  } else if (escaped_) {
    escaped_ = false;
  } else if (byte == '"') {
    quoted_ = !quoted_;
  } else if (quoted_) {
    escaped_ = byte == '\\';
  } else {
    see(byte);
  }
  if (byte != '\r') last_ = byte;
}

void TextState::see(char byte) {
  switch (byte) {
    case '{':
      mark_ = Mark::kObject, array_ = false;
      break;
    case '[':
      mark_ = Mark::kArray, array_ = true;
      break;
    case ',':
      mark_ = array_ ? Mark::kArrayComma : Mark::kComma;
      break;
    case ':':
      mark_ = Mark::kColon;
      break;
    case ']':
      array_ = false;
      [[fallthrough]];
    case '}':
      mark_ = Mark::kClosed;
      break;
    case '<':
      mark_ = Mark::kTag;
      break;
    case '/':
      if (last_ == '<') mark_ = Mark::kEndTag;
      break;
    case '>':
      mark_ = mark_ == Mark::kEndTag || last_ == '/' ? Mark::kClosed : Mark::kContent;
      break;
    case '|':
      mark_ = bars_above_ ? Mark::kBar : Mark::kHeadBar;
      bars_ = true;
      break;
    default:
      break;
  }
}

std::vector<std::uint8_t> text_states(std::string_view text, std::span<const std::size_t> ends) {
  std::vector<std::uint8_t> states;
  states.reserve(ends.size());
  TextState state;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    QUIRE_CHECK(begin <= end && end <= text.size());
    states.push_back(state.value());
    state.read(text.substr(begin, end - begin));
    begin = end;
  }
  return states;
}

}  // namespace quire::roles
