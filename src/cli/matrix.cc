// quire matrix: what works together, as a table, as JSON, or as docs/SUPPORT.md.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/matrix_tables.h"
#include "cli/report.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

using json = nlohmann::ordered_json;
using State = MatrixCell::State;

struct MatrixFlags {
  EngineFlags engine;
  bool json = false, markdown = false;
};

const char* name_of(State state) {
  switch (state) {
    case State::kYes:
      return "yes";
    case State::kNo:
      return "no";
    case State::kLess:
      return "less";
    case State::kNone:
      return "-";
    case State::kText:
      break;
  }
  return "";
}

// The reasons of a table's cells, each once, by number from 1.
class Notes {
 public:
  // What a cell shows.
  std::string show(const MatrixCell& cell) {
    if (cell.state == State::kText) return cell.text;
    std::string text = name_of(cell.state);
    if (!cell.text.empty()) text += " (" + std::to_string(number(cell.text)) + ")";
    return text;
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::size_t number(const std::string& why) {
    auto found = std::ranges::find(all_, why);
    if (found == all_.end()) found = all_.insert(all_.end(), why);
    return static_cast<std::size_t>(found - all_.begin()) + 1;
  }

  std::vector<std::string> all_;
};

void print_json(const std::vector<MatrixTable>& all) {
  json tables = json::array();
  for (const MatrixTable& table : all) {
    json rows = json::array();
    for (const MatrixRow& row : table.rows) {
      json cells = json::array();
      for (const MatrixCell& cell : row.cells) {
        json one = json::object();
        if (cell.state != State::kText) one["state"] = name_of(cell.state);
        if (!cell.text.empty()) one[cell.state == State::kText ? "text" : "why"] = cell.text;
        cells.push_back(std::move(one));
      }
      rows.push_back({{"name", row.name}, {"cells", std::move(cells)}});
    }
    tables.push_back({{"name", table.name},
                      {"about", table.about},
                      {"columns", table.columns},
                      {"rows", std::move(rows)}});
  }
  std::puts(dump({{"quire_json", 1}, {"tables", std::move(tables)}}).c_str());
}

// Each column as wide as its widest cell.
void print_table(const MatrixTable& table) {
  Notes notes;
  std::vector<std::vector<std::string>> lines = {table.columns};
  for (const MatrixRow& row : table.rows) {
    lines.push_back({row.name});
    for (const MatrixCell& cell : row.cells) lines.back().push_back(notes.show(cell));
  }
  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::printf("%s\n\n", table.name.c_str());
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += line[i] + std::string(i + 1 < line.size() ? widths[i] - line[i].size() + 2 : 0, ' ');
    }
    std::printf("  %s\n", text.c_str());
  }
  std::puts("");
  for (std::size_t i = 0; i < notes.all().size(); ++i) {
    std::printf("  (%zu) %s\n", i + 1, notes.all()[i].c_str());
  }
  std::puts("");
}

// A bar would end a cell.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

void print_markdown(const MatrixTable& table) {
  Notes notes;
  std::printf("\n## %s\n\n%s\n\n|", table.name.c_str(), table.about.c_str());
  for (const std::string& column : table.columns) std::printf(" %s |", column.c_str());
  std::printf("\n|");
  for (std::size_t i = 0; i < table.columns.size(); ++i) std::printf("---|");
  std::puts("");
  for (const MatrixRow& row : table.rows) {
    std::printf("| `%s` |", row.name.c_str());
    for (const MatrixCell& cell : row.cells) {
      const char* const quote = cell.state == State::kText ? "`" : "";
      std::printf(" %s%s%s |", quote, escaped(notes.show(cell)).c_str(), quote);
    }
    std::puts("");
  }
  if (!notes.all().empty()) std::puts("");
  for (std::size_t i = 0; i < notes.all().size(); ++i) {
    std::printf("%zu. %s\n", i + 1, notes.all()[i].c_str());
  }
}

int matrix(const MatrixFlags& flags) {
  std::unique_ptr<model::Model> model;
  if (!flags.engine.model.empty()) {
    auto loaded = model::Model::load(
        {.path = flags.engine.model, .threads = 1, .chat_template = flags.engine.chat_template});
    if (!loaded.ok()) {
      complain(loaded.status().message());
      return kExitFailed;
    }
    model = *std::move(loaded);
  }
  const std::vector<MatrixTable> tables = support_matrix(model.get());
  if (flags.json) {
    print_json(tables);
    return kExitDone;
  }
  if (flags.markdown) {
    std::puts(
        "# What works together\n\n"
        "Written by `quire matrix --markdown`, which asks the functions that accept or refuse a "
        "request; a test compares.\n"
        "yes: it works. no: it is refused, with the words of the note (over HTTP as 400, with "
        "the field in `error.param`).\n"
        "less: it works, but as the note says, and so does the answer. -: one field twice.");
  }
  for (const MatrixTable& table : tables) {
    if (flags.markdown) {
      print_markdown(table);
    } else {
      print_table(table);
    }
  }
  return kExitDone;
}

}  // namespace

Command add_matrix(CLI::App& app) {
  auto flags = std::make_shared<MatrixFlags>();
  add_model_flag(app, flags->engine)->description("A model, to say of it as well what works");
  add_template_flag(app, flags->engine);
  CLI::Option* as_json = app.add_flag("--json", flags->json, "One JSON object instead of text");
  app.add_flag("--markdown", flags->markdown, "The page docs/SUPPORT.md")->excludes(as_json);
  return [flags] { return matrix(*flags); };
}

}  // namespace quire::cli
