// Which scanner reads what: documents anywhere in prose, blocks that begin a line, fenced blocks.

#include <algorithm>
#include <array>
#include <string>

#include "quire/check.h"
#include "roles/roles.h"
#include "roles/scanners.h"

namespace quire::roles {
namespace {

// A text and the roles of its bytes, prose until something else is found.
struct Part {
  std::string_view text;
  std::span<Role> roles;

  Part from(std::size_t at) const { return {text.substr(at), roles.subspan(at)}; }
  Part first(std::size_t count) const { return {text.substr(0, count), roles.first(count)}; }
};

enum class Fences : std::uint8_t { kRead, kIgnored };
void label_blocks(Part part, Fences fences);

std::size_t label_blanks(Part part) {
  std::size_t at = 0;
  for (; at < part.text.size() && is_blank(part.text[at]); ++at) part.roles[at] = Role::kBlank;
  return at;
}

// What a document leaves behind; the bytes that it was.
std::size_t settle(const Scanned& scanned, Part part) {
  const std::size_t read = std::max<std::size_t>(scanned.end, 1);
  if (scanned.by_chance) std::ranges::fill(part.roles.first(scanned.end), Role::kProse);
  if (scanned.how != Scanned::How::kWhole) return read;
  return read + label_blanks(part.from(read));
}

// --- fenced blocks ---

struct Fence {
  char mark = 0;
  std::size_t length = 0;  // 0: none
  std::string info;        // lower case
};

// Of a line that may begin or end a fenced block.
Fence fence_of(std::string_view line) {
  const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
  line.remove_prefix(first);
  if (first > 3 || line.empty() || (line[0] != '`' && line[0] != '~')) return {};
  Fence fence{.mark = line[0]};
  const std::size_t length = std::min(line.find_first_not_of(line[0]), line.size());
  if (length < 3 || line.substr(length).find(line[0]) != std::string_view::npos) return {};
  fence.length = length;
  for (const char c : line.substr(length)) {
    if (is_blank(c) && !fence.info.empty()) break;
    if (!is_blank(c)) fence.info += 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (fence.info.size() > 16) break;
  }
  return fence;
}

template <std::size_t N>
bool among(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::ranges::find(names, name) != names.end();
}

void label_documents(Part part) {  // JSON, one after the other
  for (std::size_t at = 0; at += label_blanks(part.from(at)), at < part.text.size();) {
    const Part rest = part.from(at);
    const Scanned scanned = scan_json(rest.text, rest.roles);
    at += settle(scanned, rest);
    if (scanned.how == Scanned::How::kBroken) return label_blocks(part.from(at), Fences::kIgnored);
  }
}

void label_fenced(std::string_view info, Part part) {
  constexpr std::array<std::string_view, 4> kJson{"json", "jsonl", "ndjson", "geojson"};
  constexpr std::array<std::string_view, 2> kRows{"csv", "tsv"};
  constexpr std::array<std::string_view, 8> kAny{"",         "text", "txt",   "md",
                                                 "markdown", "xml",  "xhtml", "svg"};
  if (among(info, kJson)) return label_documents(part);
  if (among(info, kRows)) {
    const CsvForm form{.separator = info == "tsv" ? '\t' : ',', .quoted_lines = true};
    scan_csv(part.text, form, part.roles);
  }
  if (among(info, kAny)) label_blocks(part, Fences::kIgnored);
}

// The bytes of the block with its fences; 0: none begins here.
std::size_t label_fence(Part part) {
  const std::size_t head = line_end(part.text, 0);
  const Fence fence = fence_of(part.text.substr(0, head));
  if (fence.length == 0) return 0;
  std::size_t end = head, next = head;
  for (; end < part.text.size(); end = next) {
    next = line_end(part.text, end);
    const Fence last = fence_of(part.text.substr(end, next - end));
    if (last.mark == fence.mark && last.length >= fence.length && last.info.empty()) break;
  }
  label_fenced(fence.info,
               {part.text.substr(head, end - head), part.roles.subspan(head, end - head)});
  return std::max(next, head);
}

// --- blocks ---

// What begins a line: the bytes that it was; 0: prose, or JSON, which begins anywhere.
std::size_t label_block(Part part, Fences fences) {
  if (fences == Fences::kRead) {
    if (const std::size_t read = label_fence(part); read > 0) return read;
  }
  if (opens_table(part.text)) return scan_table(part.text, part.roles);
  const std::size_t indent = std::min(part.text.find_first_not_of(" \t"), part.text.size());
  const Part inner = part.from(indent);
  if (opens_xml(inner.text)) return indent + settle(scan_xml(inner.text, inner.roles), inner);
  const bool json = !inner.text.empty() && opens_json(inner.text, true);
  if (json) return 0;
  const CsvForm form = opens_csv(part.text);
  return form.fields > 0 ? scan_csv(part.text, form, part.roles) : 0;
}

void label_blocks(Part part, Fences fences) {
  const std::string_view text = part.text;
  std::size_t at = 0, line = 0;  // line: the end of the line that `at` stands in
  bool fresh = true;             // `at` begins it, or blanks do
  while (at < text.size()) {
    if (at >= line) line = line_end(text, at);
    if (fresh) {
      if (const std::size_t read = label_block(part.from(at), fences); read > 0) {
        at += read;
        fresh = text[at - 1] == '\n';
        continue;
      }
    }
    std::size_t open = at;
    while (open < line && text[open] != '{' && text[open] != '[') {
      fresh = fresh && is_blank(text[open]);
      ++open;
    }
    at = open;
    if (open == line) {
      fresh = true;
    } else if (const Part rest = part.from(at); opens_json(rest.text, fresh)) {
      at += settle(scan_json(rest.text, rest.roles), rest);
      fresh = text[at - 1] == '\n';
    } else {
      fresh = false;
      ++at;
    }
  }
}

}  // namespace

std::vector<Role> label_text(std::string_view text) {
  std::vector<Role> roles(text.size(), Role::kProse);
  label_blocks({text, roles}, Fences::kRead);
  return roles;
}

std::vector<Role> label_tokens(std::span<const Role> bytes, std::span<const std::size_t> ends,
                               TokenRule rule) {
  std::vector<Role> roles;
  roles.reserve(ends.size());
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    QUIRE_CHECK(begin <= end && end <= bytes.size());
    Role role = Role::kProse;
    bool delimiter = false;
    for (; begin < end; ++begin) {
      role = std::max(role, bytes[begin]);
      delimiter = delimiter || bytes[begin] == Role::kDelimiter;
    }
    roles.push_back(delimiter && rule.delimiters_first ? Role::kDelimiter : role);
  }
  return roles;
}

const char* name_of(Role role) {
  constexpr std::array<const char*, kRoles> kNames{"prose", "blank",  "delimiter",
                                                   "value", "header", "key"};
  return kNames[static_cast<std::size_t>(role)];
}

}  // namespace quire::roles
