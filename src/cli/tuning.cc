#include "cli/tuning.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <utility>

namespace quire::cli {
namespace {

using json = nlohmann::ordered_json;
using model::TuneCell;

Status refuse(const std::string& source, const std::string& text) {
  return {Code::kInvalidArgument, source + ": " + text};
}

Status read_rows(const json& table, const char* field, const std::string& source,
                 std::uint32_t& rows) {
  const auto found = table.find(field);
  if (found == table.end()) return refuse(source, std::string(field) + " is missing");
  const bool number = found->is_number_unsigned() && found->get<std::uint64_t>() >= 1 &&
                      found->get<std::uint64_t>() <= model::kNeverRows;
  if (!number) {
    return refuse(source, std::string(field) + " is " + found->dump() +
                              ", not a number from 1 to " + std::to_string(model::kNeverRows));
  }
  rows = found->get<std::uint32_t>();
  return {};
}

Result<json> parse(std::string_view text, const std::string& source) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    return refuse(
        source, "line " + std::to_string(1 + std::count(text.begin(), end, '\n')) + " is not JSON");
  }
}

double significant(double value) {  // four digits say all there is to a time
  if (value == 0) return 0;
  const double scale = std::pow(10.0, 3 - std::floor(std::log10(value)));
  return std::round(value * scale) / scale;
}

}  // namespace

Result<Tuning> parse_tuning(std::string_view text, const std::string& source) {
  const Result<json> parsed = parse(text, source);
  if (!parsed.ok()) return parsed.status();
  const json& table = *parsed;
  if (!table.is_object()) return refuse(source, "is not a table of quire tune, an object");
  if (!table.contains("quire_json") || table["quire_json"] != 1) {
    return refuse(source,
                  "quire_json is " +
                      (table.contains("quire_json") ? table["quire_json"].dump() : "missing") +
                      ", this version reads 1");
  }
  Tuning tuning{.source = source};
  for (const auto& [field, rows] : {std::pair("linear_chunk_rows", &tuning.linear_chunk_rows),
                                    std::pair("attend_chunk_rows", &tuning.attend_chunk_rows)}) {
    if (Status status = read_rows(table, field, source, *rows); !status.ok()) return status;
  }
  if (const auto machine = table.find("machine"); machine != table.end()) {
    if (!machine->is_object() || !machine->contains("cpu") || !(*machine)["cpu"].is_string()) {
      return refuse(source, "machine.cpu is no text");
    }
    tuning.cpu = (*machine)["cpu"];
  }
  return tuning;
}

Result<Tuning> read_tuning(const std::string& path) {
  if (path.empty()) return Tuning();
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || file.bad()) return Status(Code::kIo, path + ": cannot be read");
  return parse_tuning(text, path);
}

json tuning_json(const TunedMachine& machine, std::span<const TuneCell> cells) {
  const Tuning defaults;
  json rows = json::array();
  for (const TuneCell& cell : cells) {
    rows.push_back({{"work", cell.work == TuneCell::Work::kLinear ? "linear" : "attend"},
                    {"rows", cell.rows},
                    {"exact_us", significant(cell.exact_seconds * 1e6)},
                    {"chunk_us", significant(cell.chunk_seconds * 1e6)},
                    {"ratio", significant(cell.ratio)}});
  }
  return {{"quire_json", 1},
          {"machine", {{"cpu", machine.cpu}, {"isa", machine.isa}}},
          {"model", machine.model},
          {"linear_chunk_rows",
           model::chunk_rows_of(cells, TuneCell::Work::kLinear, defaults.linear_chunk_rows)},
          {"attend_chunk_rows",
           model::chunk_rows_of(cells, TuneCell::Work::kAttend, defaults.attend_chunk_rows)},
          {"rows", rows}};
}

}  // namespace quire::cli
