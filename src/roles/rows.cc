// Rows: comma-separated values, and tables of Markdown.

#include <algorithm>

#include "roles/scanners.h"

namespace quire::roles {
namespace {

// --- comma-separated values ---

struct Row {
  std::size_t end = 0;  // its line end included
  std::size_t fields = 0;
  bool plain = true;  // nothing that prose would rather have written
};

// The end of a field; `plain` becomes false where its quotes do not close before it.
std::size_t field_end(std::string_view text, std::size_t at, const CsvForm& form, bool& plain) {
  if (at < text.size() && text[at] == '"') {
    for (++at; at < text.size(); ++at) {
      if (text[at] == '\n' && !form.quoted_lines) break;
      if (text[at] != '"') continue;
      if (at + 1 == text.size() || text[at + 1] != '"') break;
      ++at;
    }
    if (at == text.size()) return at;
    plain = text[at] == '"';
    if (plain) ++at;
  }
  const std::size_t quoted = at;
  while (at < text.size() && text[at] != form.separator && text[at] != '\n') ++at;
  std::size_t end = at;
  if (end > quoted && at < text.size() && text[at] == '\n' && text[end - 1] == '\r') --end;
  return end;
}

// Calls write(begin, end, of_a_field) for the parts of the row that begins at `at`.
template <typename Write>
Row read_row(std::string_view text, std::size_t at, const CsvForm& form, Write write) {
  Row row;
  for (;;) {
    const std::size_t end = field_end(text, at, form, row.plain);
    write(at, end, true);
    ++row.fields;
    at = end;
    const std::size_t first = at;
    const bool next = at < text.size() && text[at] == form.separator;
    if (next) {
      ++at;
    } else {
      at = line_end(text, at);
    }
    write(first, at, false);
    if (!next) break;
    const bool spaced = form.separator != '\t' && at < text.size() && text[at] == ' ';
    row.plain = row.plain && !spaced;
  }
  row.end = at;
  return row;
}

Row measure_row(std::string_view text, std::size_t at, const CsvForm& form) {
  return read_row(text, at, form, [](std::size_t, std::size_t, bool) {});
}

constexpr std::size_t kRowsAlike = 3;

bool rows_alike(std::string_view text, const CsvForm& form, std::size_t least) {
  std::size_t at = 0, fields = 0;
  for (std::size_t i = 0; i < kRowsAlike; ++i) {
    const std::string_view line = text.substr(at, line_end(text, at) - at);
    if (line.find(form.separator) == std::string_view::npos) return false;
    const Row row = measure_row(text, at, form);
    if (!row.plain || row.fields < least || (i > 0 && row.fields != fields)) return false;
    fields = row.fields;
    at = row.end;
  }
  return true;
}

// --- tables ---

// Calls write(begin, end, is_bar) for the bars of a line and the cells between them.
template <typename Write>
void read_cells(std::string_view line, Write write) {
  std::size_t first = 0;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && (line[i] != '|' || (i > 0 && line[i - 1] == '\\'))) continue;
    if (i > first) write(first, i, false);
    if (i < line.size()) write(i, i + 1, true);
    first = i + 1;
  }
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Cells of a line; 0: it has no bar.
std::size_t count_cells(std::string_view line) {
  std::size_t cells = 0;
  bool bar = false;
  read_cells(line, [&](std::size_t begin, std::size_t end, bool is_bar) {
    bar = bar || is_bar;
    // What stands before the first bar and behind the last is a cell only where it is something.
    const bool outer = begin == 0 || end == line.size();
    const bool something = !trimmed(line.substr(begin, end - begin)).empty();
    if (!is_bar && (!outer || something)) ++cells;
  });
  return bar ? cells : 0;
}

bool is_dashes(std::string_view line) {
  return line.find_first_not_of("|:- \t\r\n") == std::string_view::npos &&
         line.find('-') != std::string_view::npos;
}

void label_row(std::string_view line, Role role, std::span<Role> roles) {
  read_cells(line, [&](std::size_t begin, std::size_t end, bool is_bar) {
    const std::span<Role> all = roles.subspan(begin, end - begin);
    const std::string_view cell = line.substr(begin, end - begin), inside = trimmed(cell);
    std::ranges::fill(all, is_bar ? Role::kDelimiter : Role::kBlank);
    if (is_bar || inside.empty()) return;
    const auto before = static_cast<std::size_t>(inside.data() - cell.data());
    std::ranges::fill(all.subspan(before, inside.size()), role);
  });
}

}  // namespace

std::size_t line_end(std::string_view text, std::size_t at) {
  return std::min(text.find('\n', at), text.size() - 1) + 1;
}

CsvForm opens_csv(std::string_view text) {
  for (const char separator : {',', '\t', ';'}) {
    CsvForm form{.separator = separator};
    if (!rows_alike(text, form, separator == '\t' ? 2 : 3)) continue;
    form.fields = measure_row(text, 0, form).fields;
    return form;
  }
  return {};
}

std::size_t scan_csv(std::string_view text, const CsvForm& form, std::span<Role> roles) {
  std::size_t at = 0;
  Role role = Role::kHeader;
  while (at < text.size()) {
    if (form.fields > 0) {
      const Row row = measure_row(text, at, form);
      const bool cut = row.end == text.size() && text.back() != '\n' && row.fields < form.fields;
      if (row.fields != form.fields && !cut) break;
    }
    at = read_row(text, at, form, [&](std::size_t begin, std::size_t end, bool of_a_field) {
           std::ranges::fill(roles.subspan(begin, end - begin),
                             of_a_field ? role : Role::kDelimiter);
         }).end;
    role = Role::kValue;
  }
  return at;
}

bool opens_table(std::string_view text) {
  const std::size_t first = line_end(text, 0);
  const std::size_t cells = count_cells(text.substr(0, first));
  if (cells == 0 || first == text.size()) return false;
  const std::string_view dashes = text.substr(first, line_end(text, first) - first);
  return is_dashes(dashes) && count_cells(dashes) == cells;
}

std::size_t scan_table(std::string_view text, std::span<Role> roles) {
  std::size_t at = 0;
  for (std::size_t row = 0; at < text.size(); ++row) {
    const std::size_t end = line_end(text, at);
    const std::string_view line = text.substr(at, end - at);
    if (line.find('|') == std::string_view::npos) break;
    const Role role = row == 0 ? Role::kHeader : row == 1 ? Role::kDelimiter : Role::kValue;
    label_row(line, role, roles.subspan(at));
    at = end;
  }
  return at;
}

}  // namespace quire::roles
