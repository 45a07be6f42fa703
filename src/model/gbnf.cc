#include "model/gbnf.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "model/gbnf_ways.h"
#include "model/json_text.h"

namespace quire::model {
namespace {

constexpr std::uint64_t kRulesMost = 2000;  // that one repetition may become: libllama's own limit
constexpr std::uint64_t kMuch = 1u << 20;   // any number over all limits

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || is_digit(c);
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Recursive descent, as libllama's.  Each step returns false once there is a fault.
class Parser {
 public:
  Parser(std::string_view text, const GbnfLimits& limits,
         const std::function<bool(std::string_view)>& is_token)
      : text_(text), limits_(limits), is_token_(is_token) {}

  // Empty: there is none.
  std::string fault() {
    if (text_.find('\0') != std::string_view::npos) return "a zero byte";
    space(true);
    while (fault_.empty() && !end()) (void)rule();
    if (!fault_.empty()) return fault_;
    for (const std::string& name : names_) {
      if (!rules_.contains(name)) return "rule '" + brief(name) + "' is not defined";
    }
    if (!rules_.contains("root")) return "there is no rule 'root'";
    return fault_of_beginnings(rules_, limits_.ways);
  }

 private:
  // What was read last, and how often it may be repeated.
  struct Item {
    bool is = false;
    std::uint64_t rules = 1;  // that libllama makes of it
    bool counted = false;     // a {m,n} has just been
  };

  bool end() const { return at_ >= text_.size(); }
  char peek() const { return end() ? '\0' : text_[at_]; }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  bool refuse(const std::string& why) {
    if (fault_.empty()) fault_ = why;
    return false;
  }
  bool wrong(const std::string& why) {
    const auto lines = std::ranges::count(text_.substr(0, std::min(at_, text_.size())), '\n');
    return refuse("line " + std::to_string(lines + 1) + ": " + why);
  }
  void add(GbnfPart part) { alternatives_->back().push_back(std::move(part)); }
  std::uint64_t symbols() const { return names_.size() + made_; }

  void space(bool newlines) {
    while (!end()) {
      const char c = peek();
      if (c == '#') {
        while (!end() && peek() != '\r' && peek() != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || (newlines && (c == '\r' || c == '\n'))) {
        ++at_;
      } else {
        return;
      }
    }
  }
  std::string name() {
    const std::size_t begin = at_;
    while (is_word(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (; is_digit(peek()); ++at_) {
      value = std::min(value * 10 + static_cast<std::uint64_t>(peek() - '0'), kMuch);
    }
    return value;
  }

  bool rule();
  bool alternates(std::uint32_t depth);
  bool sequence(std::uint32_t depth);
  bool next(std::uint32_t depth, Item& item);
  bool character();
  bool literal(Item& item);
  bool letters(Item& item);
  bool token(Item& item);
  bool group(std::uint32_t depth, Item& item);
  bool count(std::uint32_t depth, Item& item);
  bool repeat(std::uint64_t least, std::optional<std::uint64_t> most, Item& item);

  const std::string_view text_;
  const GbnfLimits& limits_;
  const std::function<bool(std::string_view)>& is_token_;
  std::size_t at_ = 0;
  std::set<std::string> names_;
  GbnfRules rules_;
  std::string rule_;                                   // that is being read
  std::vector<GbnfSequence>* alternatives_ = nullptr;  // of it, or of brackets in it
  std::uint64_t made_ = 0;  // rules that libllama makes for brackets and repetitions
  std::string fault_;
};

bool Parser::rule() {
  const std::string of = name();
  if (of.empty()) return wrong("a rule begins with its name, of letters, digits and -");
  space(false);
  if (!take("::=")) return wrong("::= is missing behind '" + brief(of) + "'");
  names_.insert(of);
  rule_ = of;
  alternatives_ = &rules_[of];
  alternatives_->clear();  // the last of that name counts
  space(true);
  if (!alternates(0)) return false;
  if (!end() && peek() != '\r' && peek() != '\n') {
    return wrong("'" + brief(std::string(1, peek())) + "' begins nothing here");
  }
  space(true);
  return true;
}

bool Parser::alternates(std::uint32_t depth) {
  if (!sequence(depth)) return false;
  while (take("|")) {
    space(true);
    if (!sequence(depth)) return false;
  }
  return true;
}

bool Parser::sequence(std::uint32_t depth) {
  Item item;
  alternatives_->emplace_back();
  while (!end()) {
    const std::size_t before = at_;
    if (!next(depth, item)) return false;
    if (at_ == before) return true;
    space(depth > 0);
  }
  return true;
}

// One more part of a sequence, if there is one.
bool Parser::next(std::uint32_t depth, Item& item) {
  const char c = peek();
  if (c == '*' || c == '+' || c == '?') {
    ++at_;
    if (item.counted && !limits_.stacked) {
      return refuse("a repetition of a repetition; put the first in round brackets");
    }
    return repeat(c == '+' ? 1 : 0, c == '?' ? std::optional<std::uint64_t>(1) : std::nullopt,
                  item);
  }
  if (c == '{') return count(depth, item);
  const Item before = item;
  item = {.is = true};
  if (c == '"') return literal(item);
  if (c == '[') return letters(item);
  if (c == '<' || c == '!') return token(item);
  if (c == '(') return group(depth, item);
  if (is_word(c)) {
    add({.rule = *names_.insert(name()).first});
  } else if (c == '.') {
    ++at_;
    add({});
  } else {
    item = before;
  }
  return true;
}

bool Parser::character() {
  if (end()) return wrong("the end, inside of a text or a class");
  if (peek() != '\\') {  // a letter of UTF-8
    const auto lead = static_cast<unsigned char>(peek());
    at_ += lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    return at_ <= text_.size() || wrong("half a letter at the end");
  }
  ++at_;
  const char kind = peek();
  if (end() || std::string_view("xuUtrn\\\"[]-").find(kind) == std::string_view::npos) {
    return wrong("no escape: \\" + brief(std::string(1, kind)));
  }
  ++at_;
  const int digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  for (int i = 0; i < digits; ++i, ++at_) {
    if (!is_hex(peek())) return wrong(std::to_string(digits) + " hexadecimal digits follow this");
  }
  return true;
}

bool Parser::literal(Item& item) {
  ++at_;
  item.is = false;
  while (peek() != '"' || end()) {
    if (!character()) return false;
    item.is = true;
  }
  ++at_;
  if (item.is) add({});
  return true;
}

bool Parser::letters(Item& item) {
  ++at_;
  (void)take("^");
  item.is = false;
  while (peek() != ']' || end()) {
    if (!character()) return false;
    item.is = true;
    const bool range = peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
    if (!range) continue;
    ++at_;
    if (!character()) return false;
  }
  ++at_;
  if (item.is) add({});
  return true;
}

bool Parser::token(Item&) {
  (void)take("!");
  const std::size_t begin = at_;
  const std::size_t close = text_.find('>', at_);
  if (peek() != '<' || close == std::string_view::npos) return wrong("a token is <text> or <[id]>");
  at_ = close + 1;
  add({});
  const std::string_view whole = text_.substr(begin, at_ - begin);
  if (!whole.starts_with("<[")) {
    const bool known = !is_token_ || is_token_(whole);
    return known || wrong("'" + brief(whole) + "' is not one token");
  }
  const std::string_view id = whole.substr(2, whole.size() - 3);
  const bool good = id.size() > 1 && id.size() < 11 && id.back() == ']' &&
                    std::all_of(id.begin(), id.end() - 1, is_digit);
  return good || wrong("the id of a token is a number in square brackets");
}

bool Parser::group(std::uint32_t depth, Item& item) {
  if (depth + 1 > limits_.depth) {
    return refuse("brackets over " + std::to_string(limits_.depth) + " deep");
  }
  ++at_;
  space(true);
  const std::uint64_t before = symbols();
  ++made_;
  const std::string inner = rule_ + "(" + std::to_string(rules_.size());  // nobody's own name
  std::vector<GbnfSequence>* const outer = std::exchange(alternatives_, &rules_[inner]);
  if (!alternates(depth + 1)) return false;
  alternatives_ = outer;
  add({.rule = inner});
  if (!take(")")) return wrong("( without its )");
  item.rules = std::max<std::uint64_t>(1, symbols() - before);
  return true;
}

// {m}, {m,} or {m,n}.
bool Parser::count(std::uint32_t depth, Item& item) {
  if (item.counted && !limits_.stacked) {
    return refuse("a repetition of a repetition; put the first in round brackets");
  }
  const bool nested = depth > 0;
  ++at_;
  space(nested);
  if (!is_digit(peek())) return wrong("a number follows {");
  const std::uint64_t least = number();
  std::optional<std::uint64_t> most = least;
  space(nested);
  if (take(",")) {
    space(nested);
    most = is_digit(peek()) ? std::optional<std::uint64_t>(number()) : std::nullopt;
    space(nested);
  }
  if (!take("}")) return refuse("{ without its }");
  if (!repeat(least, most, item)) return false;
  item.counted = true;
  return true;
}

bool Parser::repeat(std::uint64_t least, std::optional<std::uint64_t> most, Item& item) {
  if (!item.is) return wrong("nothing to repeat before this");
  if (least > limits_.repeat || most.value_or(0) > limits_.repeat) {
    return refuse("a repetition of over " + std::to_string(limits_.repeat));
  }
  if (most && *most < least) return refuse("a repetition of at most less than at least");
  const std::uint64_t times = most.value_or(0) > 0 ? *most : std::max<std::uint64_t>(1, least);
  if (item.rules * times > kRulesMost) return refuse("a repetition of too much at once");
  const std::uint64_t optional = most ? *most - least : 1;
  made_ += optional;
  item.rules *= times;
  item.is = least > 0 || optional > 0;
  GbnfPart& part = alternatives_->back().back();
  part.least *= least;
  part.most = part.most && most ? std::optional(*part.most * *most) : std::nullopt;
  item.counted = false;
  return true;
}

}  // namespace

Status check_gbnf(std::string_view text, const GbnfLimits& limits,
                  const std::function<bool(std::string_view)>& is_token) {
  const std::string fault = Parser(text, limits, is_token).fault();
  return fault.empty() ? Status() : Status(Code::kInvalidArgument, "grammar: " + fault);
}

}  // namespace quire::model
