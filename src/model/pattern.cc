#include "model/pattern.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace quire::model {
namespace {

constexpr std::size_t kMaxDepth = 32;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Bytes of the UTF-8 letter that begins with `first`.
std::size_t letter_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// A byte inside a class, as the grammar's parser reads nothing but itself into it.
std::string in_class(char c) {
  if (is_word(c) || c == ' ' || static_cast<unsigned char>(c) >= 0x80) return std::string(1, c);
  char text[8];
  std::snprintf(text, sizeof(text), "\\x%02X", static_cast<unsigned char>(c));
  return text;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<std::string> read() {
    const std::size_t ways = alternatives(0);
    if (fault_ == nullptr && !done()) fail("unbalanced parentheses");
    if (fault_ == nullptr && ways > kMaxPatternWays) fail("too many nested repetitions");
    if (fault_ != nullptr) return Status(Code::kInvalidArgument, fault_);
    return "^" + out_ + "$";
  }

 private:
  bool done() const { return fault_ != nullptr || at_ >= text_.size(); }
  char peek() const { return text_[at_]; }
  std::size_t fail(const char* why) {
    if (fault_ == nullptr) fault_ = why;
    return 0;
  }
  static std::size_t capped(std::size_t ways) { return std::min(ways, kMaxPatternWays + 1); }

  // Each returns the ways into what it read.
  std::size_t alternatives(std::size_t depth) {
    if (depth > kMaxDepth) return fail("nested too deeply");
    std::size_t ways = 0;
    while (!done() && peek() != ')') {
      if (peek() == '|') {
        out_ += text_[at_++];
        continue;
      }
      ways = capped(ways + repeated(depth));
    }
    return ways;
  }

  std::size_t repeated(std::size_t depth) {
    const std::size_t ways = atom(depth);
    if (done()) return ways;
    std::size_t times = 1;
    if (peek() == '*' || peek() == '+' || peek() == '?') {
      out_ += text_[at_++];
      times = 2;
    } else if (peek() == '{') {
      times = counted();
    } else {
      return ways;
    }
    if (!done() && peek() == '?') ++at_;  // lazy: the same texts
    if (!done() && (peek() == '*' || peek() == '+' || peek() == '{' || peek() == '?')) {
      return fail("a repetition of a repetition");
    }
    return capped(ways * times);
  }

  std::size_t number() {
    std::size_t value = 0;
    if (done() || !is_digit(peek())) return fail("a brace that is no repetition");
    for (; !done() && is_digit(peek()); ++at_) {
      value = std::min<std::size_t>(value * 10 + static_cast<std::size_t>(peek() - '0'), 1u << 20);
    }
    return value;
  }

  std::size_t counted() {
    ++at_;
    const std::size_t least = number();
    std::size_t most = least;
    bool open = false;
    if (!done() && peek() == ',') {
      ++at_;
      open = !done() && peek() == '}';
      if (!open) most = number();
    }
    if (done() || peek() != '}') return fail("a brace that is no repetition");
    ++at_;
    if (least > most) return fail("a repetition whose least is over its most");
    out_ += "{" + std::to_string(least) + "," + (open ? "" : std::to_string(most)) + "}";
    return most + 2;
  }

  std::size_t atom(std::size_t depth) {
    const char c = peek();
    switch (c) {
      case '(':
        return group(depth);
      case '[':
        return character_class();
      case '\\':
        return escape();
      case '.':
        out_ += text_[at_++];
        return 1;
      case '^':
      case '$':
        return fail("an anchor inside");
      case '*':
      case '+':
      case '?':
      case '{':
        return fail("nothing to repeat");
      case '}':
      case ']':
        return fail("an unbalanced bracket");
      default:
        return literal();
    }
  }

  std::size_t group(std::size_t depth) {
    ++at_;
    if (text_.substr(at_, 2) == "?:") {
      at_ += 2;
    } else if (!done() && peek() == '?') {
      return fail("a lookaround or named group");
    }
    out_ += '(';
    const std::size_t ways = alternatives(depth + 1);
    if (done()) return fail("unbalanced parentheses");
    ++at_;
    out_ += ')';
    return ways;
  }

  std::size_t literal() {
    const char c = peek();
    if (c == '"' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return fail("a character that JSON escapes");
    }
    const std::size_t bytes = letter_bytes(c);
    // A class for what is not a plain byte: the converter would repeat the wrong part of it.
    const std::string letter(text_.substr(at_, bytes));
    out_ += bytes > 1 ? "[" + letter + "]" : letter;
    at_ += bytes;
    return 1;
  }

  std::size_t escape() {
    if (++at_ >= text_.size()) return fail("a backslash at the end");
    const char c = text_[at_++];
    if (c == 'd') return out_ += "[0-9]", 1;
    if (c == 'w') return out_ += "[a-zA-Z0-9_]", 1;
    if (c == 's') return out_ += "[ ]", 1;
    if (is_word(c)) return fail("an escape with no counterpart");
    if (c == '"' || c == '\\') return fail("a character that JSON escapes");
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F) {
      return fail("an escape with no counterpart");
    }
    out_ += "[" + in_class(c) + "]";
    return 1;
  }

  // One member of a class: the letter, or a shorthand written to `out` (then empty).
  std::string member(std::string& out) {
    if (peek() != '\\') {
      const std::string letter(text_.substr(at_, letter_bytes(peek())));
      at_ += letter.size();
      return letter;
    }
    if (++at_ >= text_.size()) return fail("a backslash at the end"), std::string();
    const char c = text_[at_++];
    if (c == 'd') return out += "0-9", std::string();
    if (c == 'w') return out += "a-zA-Z0-9_", std::string();
    if (c == 's') return out += " ", std::string();
    if (is_word(c)) return fail("an escape with no counterpart"), std::string();
    return std::string(1, c);
  }

  std::size_t character_class() {
    ++at_;
    const bool negative = !done() && peek() == '^';
    if (negative) ++at_;
    std::string members;
    while (!done() && peek() != ']') {
      const std::string low = member(members);
      if (low.empty() || fault_ != nullptr) continue;
      std::string high = low;
      if (at_ + 1 < text_.size() && peek() == '-' && text_[at_ + 1] != ']') {
        ++at_;
        high = member(members);
        if (high.empty()) return fail("a range to a class");
      }
      add_range(low, high, negative, members);
    }
    if (done()) return fail("an unbalanced bracket");
    ++at_;
    if (members.empty()) return fail("an empty class");
    out_ += (negative ? "[^" : "[") + members + "]";
    return 1;
  }

  // A positive class leaves out what a JSON string must escape.
  void add_range(const std::string& low, const std::string& high, bool negative,
                 std::string& members) {
    const bool ascii = low.size() == 1 && high.size() == 1;
    const auto first = static_cast<unsigned char>(low[0]);
    const auto last = static_cast<unsigned char>(high[0]);
    if ((ascii || low.size() == high.size()) && low > high) {
      fail("a range whose ends are swapped");
      return;
    }
    const auto add = [&](unsigned from, unsigned to) {
      if (from > to) return;
      members += in_class(static_cast<char>(from));
      if (to > from) members += "-" + in_class(static_cast<char>(to));
    };
    if (!ascii) {
      if (low.size() == 1 && low != high && !negative) {
        fail("a range over characters that JSON escapes");
        return;
      }
      members += low.size() == 1 ? in_class(low[0]) : low;
      if (low != high) members += "-" + high;
    } else if (negative) {
      add(first, last);
    } else {
      const unsigned from = std::max<unsigned>(first, 0x20), to = std::min<unsigned>(last, 0x7E);
      add(from, std::min<unsigned>(to, '"' - 1));
      add(std::max<unsigned>(from, '"' + 1), std::min<unsigned>(to, '\\' - 1));
      add(std::max<unsigned>(from, '\\' + 1), to);
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  const char* fault_ = nullptr;
};

}  // namespace

Result<std::string> plain_pattern(std::string_view pattern) {
  const auto refuse = [](const char* why) { return Status(Code::kInvalidArgument, why); };
  if (pattern.size() > kMaxPatternBytes) return refuse("a pattern of more than 512 bytes");
  if (pattern.size() < 2 || pattern.front() != '^' || pattern.back() != '$') {
    return refuse("a pattern without ^ and $ around it");
  }
  return Reader(pattern.substr(1, pattern.size() - 2)).read();
}

}  // namespace quire::model
