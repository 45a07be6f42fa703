// JSON: one byte of state and a bit a level.

#include <algorithm>
#include <array>
#include <cstdint>

#include "roles/scanners.h"

namespace quire::roles {
namespace {

// Bytes that end the plain part of a string: the quote, the escape, control characters.
constexpr std::array<bool, 256> kEndsPlain = [] {
  std::array<bool, 256> ends{};
  for (int c = 0; c < 0x20; ++c) ends[static_cast<std::size_t>(c)] = true;
  ends['"'] = ends['\\'] = true;
  return ends;
}();

constexpr bool is_digit(char c) {
  return '0' <= c && c <= '9';
}

constexpr bool is_literal(char c) {
  return is_digit(c) || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '+' || c == '-' ||
         c == '.';
}

// Whether a word is a number, or, where the text was `cut`, the beginning of one.
bool is_number(std::string_view word, bool cut) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t first = at;
    while (at < word.size() && is_digit(word[at])) ++at;
    return at > first;
  };
  const auto ended = [&] { return at == word.size(); };
  if (word[0] == '-') ++at;
  if (ended()) return cut;
  if (word[at] == '0') {
    ++at;
  } else if (!digits()) {
    return false;
  }
  if (!ended() && word[at] == '.') {
    ++at;
    if (!digits()) return cut && ended();
  }
  if (!ended() && (word[at] == 'e' || word[at] == 'E')) {
    ++at;
    if (!ended() && (word[at] == '+' || word[at] == '-')) ++at;
    if (!digits()) return cut && ended();
  }
  return ended();
}

bool is_value(std::string_view word, bool cut) {
  for (const std::string_view name : {"true", "false", "null"}) {
    if (word == name || (cut && name.starts_with(word))) return true;
  }
  return is_number(word, cut);
}

class JsonScanner {
 public:
  JsonScanner(std::string_view text, std::span<Role> roles) : text_(text), roles_(roles) {}

  Scanned scan() {
    while (how_ == How::kCut && at_ < text_.size()) {
      if (const char c = text_[at_]; is_blank(c)) {
        roles_[at_++] = Role::kBlank;
      } else {
        step(c);
      }
    }
    return {.how = how_, .end = at_, .by_chance = how_ == How::kBroken && !telling_};
  }

 private:
  using How = Scanned::How;
  enum class Expect : std::uint8_t { kValue, kValueOrEnd, kKey, kKeyOrEnd, kColon, kComma };

  void step(char c) {
    switch (expect_) {
      case Expect::kKey:
      case Expect::kKeyOrEnd:
        if (c == '"') return string(Role::kKey, Expect::kColon);
        if (c == '}' && expect_ == Expect::kKeyOrEnd) return close();
        break;
      case Expect::kColon:
        if (c != ':') break;
        telling_ = true;
        return delimiter(Expect::kValue);
      case Expect::kValue:
      case Expect::kValueOrEnd:
        if (c == '"') return string(Role::kValue, Expect::kComma);
        if (c == '{' || c == '[') return open(c == '{');
        if (c == ']' && expect_ == Expect::kValueOrEnd) return close();
        if (is_literal(c)) return literal();
        break;
      case Expect::kComma:
        if (c == (in_object() ? '}' : ']')) return close();
        if (c != ',') break;
        telling_ = true;
        return delimiter(in_object() ? Expect::kKey : Expect::kValue);
    }
    how_ = How::kBroken;
  }

  void delimiter(Expect next) {
    roles_[at_++] = Role::kDelimiter;
    expect_ = next;
  }
  bool in_object() const { return (objects_[(depth_ - 1) / 64] >> (depth_ - 1) % 64 & 1) != 0; }

  void open(bool object) {
    if (depth_ == kDepthMost) {
      how_ = How::kBroken;
      return;
    }
    std::uint64_t& word = objects_[depth_ / 64];
    const std::uint64_t bit = std::uint64_t{1} << depth_ % 64, below = bit - 1;
    word = depth_ % 64 == 0 ? 0 : word & below;  // of the levels left nothing is known any more
    if (object) word |= bit;
    ++depth_;
    delimiter(object ? Expect::kKeyOrEnd : Expect::kValueOrEnd);
  }

  void close() {
    --depth_;
    delimiter(Expect::kComma);
    if (depth_ == 0) how_ = How::kWhole;
  }

  void value_ended() {
    if (depth_ == 0) how_ = How::kWhole;
  }

  // Breaks, and what was read from `first` on is prose.
  void break_since(std::size_t first) {
    std::fill(roles_.begin() + first, roles_.begin() + at_, Role::kProse);
    how_ = How::kBroken;
  }

  void string(Role role, Expect next) {
    const std::size_t first = at_++;
    const auto write = [&] { std::fill(roles_.begin() + first, roles_.begin() + at_, role); };
    for (;;) {
      while (at_ < text_.size() && !kEndsPlain[static_cast<unsigned char>(text_[at_])]) ++at_;
      if (at_ == text_.size()) return write();
      if (text_[at_] == '"') break;
      if (text_[at_] != '\\' || !escape()) return break_since(first);
      if (at_ == text_.size()) return write();
    }
    ++at_;
    write();
    expect_ = next;
    if (role == Role::kValue) value_ended();
  }

  // Passes an escape, or as much of it as there is.
  bool escape() {
    if (++at_ == text_.size()) return true;
    const char c = text_[at_++];
    if (c != 'u') return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
    for (int i = 0; i < 4 && at_ < text_.size(); ++i, ++at_) {
      const char h = text_[at_];
      if (!is_digit(h) && !('a' <= h && h <= 'f') && !('A' <= h && h <= 'F')) return false;
    }
    return true;
  }

  void literal() {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_literal(text_[at_])) ++at_;
    const std::string_view word = text_.substr(first, at_ - first);
    if (!is_value(word, at_ == text_.size())) return break_since(first);
    std::fill(roles_.begin() + first, roles_.begin() + at_, Role::kValue);
    expect_ = Expect::kComma;
    if (is_value(word, false)) value_ended();
  }

  const std::string_view text_;
  const std::span<Role> roles_;
  std::size_t at_ = 0, depth_ = 0;
  Expect expect_ = Expect::kValue;
  How how_ = How::kCut;
  bool telling_ = false;  // it has read what only JSON has: a name and its colon, or a comma
  std::array<std::uint64_t, kDepthMost / 64> objects_;  // a bit a level below depth_: 1 = object
};

}  // namespace

Scanned scan_json(std::string_view text, std::span<Role> roles) {
  return JsonScanner(text, roles).scan();
}

bool opens_json(std::string_view text, bool line_start) {
  std::size_t next = 1;
  while (next < text.size() && is_blank(text[next])) ++next;
  const char first = next < text.size() ? text[next] : '"';  // cut off: it may be
  if (text[0] == '{') return first == '"' || first == '}';
  if (text[0] != '[') return false;
  if (first == '{' || first == '[' || first == '"') return true;
  return line_start && (is_literal(first) || first == ']');
}

}  // namespace quire::roles
