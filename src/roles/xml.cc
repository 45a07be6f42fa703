// XML: names are keys, what they hold are values.  Namespaces, entities and document types are read
// over; that tags nest is checked, as nothing else says where a document ends.

#include <algorithm>
#include <vector>

#include "roles/scanners.h"

namespace quire::roles {
namespace {

constexpr bool begins_name(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '_' || c == ':' ||
         static_cast<unsigned char>(c) >= 0x80;
}

constexpr bool in_name(char c) {
  return begins_name(c) || ('0' <= c && c <= '9') || c == '-' || c == '.';
}

class XmlScanner {
 public:
  XmlScanner(std::string_view text, std::span<Role> roles) : text_(text), roles_(roles) {}

  Scanned scan() {
    while (how_ == How::kCut && at_ < text_.size()) {
      if (text_[at_] == '<') {
        markup();
      } else if (open_.empty()) {
        is_blank(text_[at_]) ? write(1, Role::kBlank) : fail();
      } else {
        contents(std::min(text_.find('<', at_), text_.size()));
      }
    }
    return {.how = how_, .end = at_, .by_chance = how_ == How::kBroken && !telling_};
  }

 private:
  using How = Scanned::How;

  void fail() { how_ = How::kBroken; }
  bool here(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  // What is left of the text is less than `what`, and its beginning.
  bool cut(std::string_view what) const { return what.starts_with(text_.substr(at_)); }
  void write(std::size_t count, Role role) {
    std::fill_n(roles_.begin() + at_, count, role);
    at_ += count;
  }

  void contents(std::size_t end) {
    std::size_t first = at_, last = end;
    while (first < end && is_blank(text_[first])) ++first;
    while (last > first && is_blank(text_[last - 1])) --last;
    write(first - at_, Role::kBlank);
    write(last - first, Role::kValue);
    write(end - last, Role::kBlank);
  }

  // Up to and with `end`, or to the text's end.
  void pass(std::size_t head, std::string_view end, Role role, Role inside) {
    write(head, role);
    const std::size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) return write(text_.size() - at_, inside);
    write(found - at_, inside);
    write(end.size(), role);
  }

  void markup() {
    if (cut("<!--") || cut("<![CDATA[") || cut("<!DOCTYPE") || cut("</") || cut("<?")) {
      return write(text_.size() - at_, Role::kDelimiter);
    }
    if (here("<!--")) return pass(4, "-->", Role::kProse, Role::kProse);
    if (here("<?")) return pass(2, "?>", Role::kDelimiter, Role::kDelimiter);
    if (here("<![CDATA[") && !open_.empty()) {
      return pass(9, "]]>", Role::kDelimiter, Role::kValue);
    }
    if (here("<!DOCTYPE") && open_.empty()) return document_type();
    here("</") ? end_tag() : start_tag();
  }

  // To the first '>' outside of its brackets.
  void document_type() {
    bool inside = false;
    std::size_t end = at_;
    while (end < text_.size() && (inside || text_[end] != '>')) {
      inside = text_[end] == '[' || (inside && text_[end] != ']');
      ++end;
    }
    write(std::min(end + 1, text_.size()) - at_, Role::kDelimiter);
  }

  // Empty: there is none.
  std::string_view name() {
    if (at_ == text_.size() || !begins_name(text_[at_])) return {};
    std::size_t end = at_;
    while (end < text_.size() && in_name(text_[end])) ++end;
    const std::string_view read = text_.substr(at_, end - at_);
    write(read.size(), Role::kKey);
    return read;
  }

  void blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) write(1, Role::kBlank);
  }

  // False: it is not there, and the scan is over.
  bool expect(char c) {
    if (at_ == text_.size()) return false;
    if (text_[at_] == c) {
      write(1, Role::kDelimiter);
      return true;
    }
    fail();
    return false;
  }

  void end_tag() {
    write(2, Role::kDelimiter);
    const std::size_t first = at_;
    const std::string_view read = name();
    const bool to_be_continued = at_ == text_.size();
    if (open_.empty() ||
        (read != open_.back() && !(to_be_continued && open_.back().starts_with(read)))) {
      std::fill(roles_.begin() + first, roles_.begin() + at_, Role::kProse);
      return fail();
    }
    blanks();
    if (expect('>')) close();
  }

  void start_tag() {
    write(1, Role::kDelimiter);
    const std::string_view read = name();
    if (read.empty() || open_.size() == kTagDepthMost) return fail();
    open_.push_back(read);
    while (blanks(), at_ < text_.size()) {
      if (text_[at_] == '>') return write(1, Role::kDelimiter);
      if (text_[at_] == '/') {
        write(1, Role::kDelimiter);
        if (expect('>')) close();
        return;
      }
      if (!attribute()) return;
    }
  }

  bool attribute() {
    if (name().empty()) {
      fail();
      return false;
    }
    blanks();
    if (!expect('=')) return false;
    blanks();
    if (at_ == text_.size()) return false;
    const char quote = text_[at_];
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '<') ++end;
    const bool whole = end < text_.size() && text_[end] == quote;
    if ((quote != '"' && quote != '\'') || (!whole && end < text_.size())) {
      fail();
      return false;
    }
    write(end + (whole ? 1 : 0) - at_, Role::kValue);
    return whole;
  }

  void close() {
    open_.pop_back();
    telling_ = true;
    if (open_.empty()) how_ = How::kWhole;
  }

  const std::string_view text_;
  const std::span<Role> roles_;
  std::size_t at_ = 0;
  How how_ = How::kCut;
  bool telling_ = false;                // an element was closed
  std::vector<std::string_view> open_;  // names, at most kTagDepthMost
};

}  // namespace

Scanned scan_xml(std::string_view text, std::span<Role> roles) {
  return XmlScanner(text, roles).scan();
}

bool opens_xml(std::string_view text) {
  if (text.size() < 2 || text[0] != '<') return false;
  return begins_name(text[1]) || text.starts_with("<?xml") || text.starts_with("<!DOCTYPE") ||
         text.starts_with("<!--");
}

}  // namespace quire::roles
