// One scanner a format.  Each begins at the first byte of a document and writes the roles of what
// it reads; no byte is read twice by it, so that whoever goes on at `end` is linear as well.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "quire/types.h"

namespace quire::roles {

struct Scanned {
  // How it ended: the document did; the text did first; or what follows is none of the document.
  enum class How : std::uint8_t { kWhole, kCut, kBroken };
  How how = How::kCut;
  std::size_t end = 0;  // bytes read; where broken, the last of them may be prose
  // Broken after so little that it may have been prose by chance: take its roles back.
  bool by_chance = false;
};

// A document of any JSON value (RFC 8259; contents need not be UTF-8), nested up to kDepthMost.
Scanned scan_json(std::string_view text, std::span<Role> roles);
// Whether a document may begin here in prose: an object, or an array that prose would not write.
// `line_start`: nothing but blanks stands before it in its line.
bool opens_json(std::string_view text, bool line_start);
constexpr std::size_t kDepthMost = 1 << 16;

// An element with all that stands before it (declarations, comments), tags nested as they must be.
Scanned scan_xml(std::string_view text, std::span<Role> roles);
bool opens_xml(std::string_view text);
constexpr std::size_t kTagDepthMost = 1 << 12;

// A table of Markdown: a head row, a row of dashes, rows up to a line without a bar.
bool opens_table(std::string_view text);
std::size_t scan_table(std::string_view text, std::span<Role> roles);  // bytes read

// Rows of fields (RFC 4180) with the separator given.  A field in quotes may hold line ends only
// where `quoted_lines`; `fields` > 0: ends before the first row with another count.
struct CsvForm {
  char separator = ',';
  bool quoted_lines = false;
  std::size_t fields = 0;
};
// The form of rows that prose would not write: three of one count, three fields or more (two, of
// tabs), no blank behind a comma.  fields 0: none.
CsvForm opens_csv(std::string_view text);
std::size_t scan_csv(std::string_view text, const CsvForm& form, std::span<Role> roles);

// --- what they share ---

constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
// The end of the line that `at` stands in, its line end included.
std::size_t line_end(std::string_view text, std::size_t at);

}  // namespace quire::roles
