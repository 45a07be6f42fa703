#include "eval/policies_report.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "eval/plot.h"

namespace quire::eval {
namespace {

Json cell_json(const Cell& cell) {
  Json object = {{"task", name_of(cell.task)},
                 {"view", cell.view ? Json(name_of(*cell.view)) : Json(nullptr)},
                 {"block_tokens", cell.block_tokens},
                 {"policy", cell.arm.policy},
                 {"keep", cell.arm.keep},
                 {"gate", cell.arm.gate},
                 {"entries", cell.entries},
                 {"bytes", cell.bytes},
                 {"bytes_share", cell.bytes_share},
                 {"off_target", cell.off_target},
                 {"open_share", cell.open_share},
                 {"reachable", cell.reachable},
                 {"only_protected", cell.only_protected},
                 {"measures", Json::object()}};
  for (const Measure& measure : cell.measures) {
    object["measures"][measure.name] = json_of(measure.estimate);
  }
  object["over_random"] = cell.over_random ? json_of(*cell.over_random) : Json(nullptr);
  return object;
}

std::string with_interval(const Measure& measure) {
  return measure.percent ? with_interval(measure.estimate, 100, 0)
                         : with_interval(measure.estimate);
}

// Whether the cell passes: its interval over random lies above 0.
std::string verdict(const Cell& cell) {
  if (!cell.over_random) return "";
  const Estimate& over = *cell.over_random;
  if (!std::isfinite(over.interval.low)) return "one input";
  if (over.interval.low > 0) return "pass";
  return over.interval.high < 0 ? "fail (worse)" : "fail (no difference)";
}

std::string notes(const Cell& cell) {
  std::string text;
  const auto add = [&](const std::string& note) { text += (text.empty() ? "" : "; ") + note; };
  if (!cell.reachable) add("cannot be this small");
  if (cell.only_protected) add("only the protected entries");
  if (cell.reachable && cell.off_target > kBytesTolerance) {
    add("bytes off by up to " + fixed(cell.off_target * 100, 1) + " %");
  }
  return text;
}

// Cells of one page section: one task, view and block size.
struct Section {
  std::string title, file;
  std::vector<const Cell*> cells;
};

std::vector<Section> sections(const Summary& summary) {
  std::vector<Section> found;
  for (const Cell& cell : summary.cells) {
    const std::string block = std::to_string(cell.block_tokens);
    const std::string title = cell.task_name() + ", blocks of " + block;
    if (found.empty() || found.back().title != title) {
      std::string file = std::string(name_of(cell.task)) + "-";
      if (cell.view) file += std::string(name_of(*cell.view)) + "-";
      found.push_back({title, file + block, {}});
    }
    found.back().cells.push_back(&cell);
  }
  return found;
}

std::vector<std::string> arms_of(const Section& section) {
  std::vector<std::string> names;
  for (const Cell* cell : section.cells) {
    if (std::ranges::find(names, cell->arm.label()) == names.end()) {
      names.push_back(cell->arm.label());
    }
  }
  return names;
}

std::string measure_words(std::string_view name) {
  if (name == "kl") return "KL to the full cache (nats)";
  if (name == "log_p") return "log-probability of an answer token (nats)";
  if (name == "retained") return "answered, of what the full cache answers";
  return std::string(name);
}

Plot plot_of(const Section& section, const char* measure) {
  const Measure& first = *section.cells[0]->measure(measure);
  Plot plot{.title = section.title,
            .x_label = "bytes of the sequence, of the full cache",
            .y_label = measure_words(measure),
            .x_percent = true,
            .y_percent = first.percent,
            .y_from_zero = std::string_view(measure) != "log_p"};
  for (const std::string& policy : arms_of(section)) {
    if (policy == kFull) continue;
    PlotLine line{.name = policy, .dashed = policy == kOracle || policy == "random"};
    for (const Cell* cell : section.cells) {
      if (cell->arm.label() != policy) continue;
      const Estimate& e = cell->measure(measure)->estimate;
      line.points.push_back({cell->bytes_share, e.value, e.interval});
    }
    std::ranges::sort(line.points, {}, &PlotPoint::x);
    plot.lines.push_back(std::move(line));
  }
  return plot;
}

std::vector<const char*> plotted(const Section& section) {
  if (continues(section.cells[0]->task)) return {"kl"};
  return {"log_p", "retained"};
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string blanks(width - std::min(width, text.size()), ' ');
  return right ? blanks + text : text + blanks;
}

// A line per policy, a column per share.
std::string measure_table(const Section& section, const char* measure) {
  constexpr std::size_t kName = 24, kColumn = 26;
  std::set<double, std::greater<>> keeps;
  for (const Cell* cell : section.cells) keeps.insert(cell->arm.keep);
  std::string text =
      section.title + ": " + measure_words(measure) + "\n  " + padded("kept", kName, false);
  for (const double keep : keeps) text += padded(fixed(keep * 100, 1) + " %", kColumn, true);
  for (const std::string& arm : arms_of(section)) {
    text += "\n  " + padded(arm, kName, false);
    for (const double keep : keeps) {
      std::string value;
      for (const Cell* cell : section.cells) {
        if (cell->arm.label() != arm || cell->arm.keep != keep) continue;
        value = with_interval(*cell->measure(measure)) + (cell->reachable ? "" : " !");
      }
      text += padded(value, kColumn, true);
    }
  }
  return text + "\n\n";
}

std::string section_page(const Section& section, const std::string& prefix) {
  std::string text = "## " + section.title + "\n\n";
  for (const char* measure : plotted(section)) {
    text += "![" + measure_words(measure) + "](plots/" + prefix + section.file + "-" + measure +
            ".svg)\n\n";
  }
  text += "| policy | keep | entries | bytes | ";
  for (const Measure& measure : section.cells[0]->measures) {
    text += measure.name + (measure.percent ? " % | " : " | ");
  }
  text += "over random | verdict | note |\n|---|---|---|---|";
  for (std::size_t i = 0; i < section.cells[0]->measures.size() + 3; ++i) text += "---|";
  text += "\n";
  for (const Cell* cell : section.cells) {
    text += "| " + cell->arm.label() + " | " + fixed(cell->arm.keep * 100, 1) + " % | " +
            fixed(cell->entries, 0) + " | " + fixed(cell->bytes_share * 100, 1) + " % | ";
    for (const Measure& measure : cell->measures) text += with_interval(measure) + " | ";
    const Measure over{.estimate = cell->over_random.value_or(Estimate{})};
    text += (cell->over_random ? with_interval(over) : "") + " | " + verdict(*cell) + " | " +
            notes(*cell) + " |\n";
  }
  return text + "\n";
}

std::string page_of(const PoliciesReport& report) {
  std::string text =
      "# Policies at equal bytes\n\n"
      "Written by `quire eval policies --report`. Every arm is a fork of one prompt, beside a fork "
      "that never shrinks; rows of both are computed in the same step. Keep is a share of the full "
      "cache's bytes, tables, masks and sums counted; entries are chosen so that arms take equal "
      "bytes. Values are means over inputs with 95 % bootstrap intervals (whole documents are "
      "drawn). *over random* is the paired difference to `random` at the same share (KL on prose, "
      "log-probability of the answer elsewhere; above 0 is better): a policy passes when its "
      "interval lies above 0. *retained*: of the questions the full cache answers. *blind*: the "
      "review comes before the question; *aware*: after it, before its last row.\n\n";
  const Json& model = report.header.at("model");
  text += "Model: " + model.at("name").get<std::string>() + " (" +
          model.at("quantization").get<std::string>() + ", " +
          std::to_string(model.at("file_bytes").get<std::uint64_t>()) + " bytes, fingerprint " +
          model.at("fingerprint").get<std::string>() +
          "). Inputs: " + std::to_string(report.inputs) + ". Settings: `" +
          report.header.at("options").dump() + "`.\n\n## Checks\n\n" +
          checks_page(report.summary.checks);
  return text + sections_page(report, "");
}

}  // namespace

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.*f", decimals, value);
  return buffer;
}

Json number_json(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

std::string with_interval(const Estimate& estimate, double scale, int decimals) {
  std::string text = fixed(estimate.value * scale, decimals);
  if (std::isfinite(estimate.interval.low)) {
    text += " [" + fixed(estimate.interval.low * scale, decimals) + ", " +
            fixed(estimate.interval.high * scale, decimals) + "]";
  }
  return text;
}

Json json_of(const Estimate& estimate) {
  return {{"value", number_json(estimate.value)},
          {"low", number_json(estimate.interval.low)},
          {"high", number_json(estimate.interval.high)},
          {"inputs", estimate.clusters},
          {"items", estimate.items}};
}

Json json_of(const std::vector<Check>& checks) {
  Json list = Json::array();
  for (const Check& check : checks) {
    list.push_back({{"name", check.name},
                    {"threshold", check.threshold},
                    {"found", check.found},
                    {"pass", check.pass}});
  }
  return list;
}

std::string checks_page(const std::vector<Check>& checks) {
  std::string text = "| check | threshold | found | |\n|---|---|---|---|\n";
  for (const Check& check : checks) {
    text += "| " + check.name + " | " + check.threshold + " | " + check.found + " | " +
            (check.pass ? "pass" : "fail") + " |\n";
  }
  return text + "\n";
}

std::string sections_page(const PoliciesReport& report, const std::string& prefix) {
  std::string text;
  for (const Section& section : sections(report.summary)) text += section_page(section, prefix);
  return text;
}

Json json_of(const PoliciesReport& report) {
  Json cells = Json::array();
  for (const Cell& cell : report.summary.cells) cells.push_back(cell_json(cell));
  return {{"quire_json", 1},
          {"model", report.header.at("model")},
          {"options", report.header.at("options")},
          {"inputs", report.inputs},
          {"cells", cells},
          {"checks", json_of(report.summary.checks)}};
}

std::string csv_of(const PoliciesReport& report) {
  std::string text =
      "task,view,block_tokens,policy,keep,entries,bytes,bytes_share,off_target,reachable,measure,"
      "value,low,high,inputs,items\n";
  const auto line = [&](const Cell& cell, const std::string& name, const Estimate& e) {
    text += std::string(name_of(cell.task)) + "," + (cell.view ? name_of(*cell.view) : "") + "," +
            std::to_string(cell.block_tokens) + ",\"" + cell.arm.policy + "\"," +
            fixed(cell.arm.keep, 6) + "," + fixed(cell.entries, 1) + "," + fixed(cell.bytes, 0) +
            "," + fixed(cell.bytes_share, 6) + "," + fixed(cell.off_target, 6) + "," +
            (cell.reachable ? "1," : "0,") + name + "," + fixed(e.value, 9) + "," +
            fixed(e.interval.low, 9) + "," + fixed(e.interval.high, 9) + "," +
            std::to_string(e.clusters) + "," + std::to_string(e.items) + "\n";
  };
  for (const Cell& cell : report.summary.cells) {
    for (const Measure& measure : cell.measures) line(cell, measure.name, measure.estimate);
    if (cell.over_random) line(cell, "over_random", *cell.over_random);
  }
  return text;
}

std::string table_of(const PoliciesReport& report) {
  std::string text;
  for (const Section& section : sections(report.summary)) {
    for (const char* measure : plotted(section)) text += measure_table(section, measure);
  }
  for (const Check& check : report.summary.checks) {
    text += std::string(check.pass ? "pass  " : "FAIL  ") + check.name + ": " + check.found + " (" +
            check.threshold + ")\n";
  }
  return text;
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text << std::flush;
  if (out) return {};
  return {Code::kIo, "cannot write " + path + ": " + std::strerror(errno)};
}

Status write_plots(const PoliciesReport& report, const std::string& directory,
                   const std::string& prefix) {
  const std::filesystem::path plots = std::filesystem::path(directory) / "plots";
  std::error_code error;
  std::filesystem::create_directories(plots, error);
  if (error) return {Code::kIo, "cannot make " + directory + ": " + error.message()};
  for (const Section& section : sections(report.summary)) {
    for (const char* measure : plotted(section)) {
      const std::string name = prefix + section.file + "-" + measure + ".svg";
      const Status status = write_file((plots / name).string(), svg(plot_of(section, measure)));
      if (!status.ok()) return status;
    }
  }
  return {};
}

Status write_report(const PoliciesReport& report, const std::string& directory) {
  const std::filesystem::path root(directory);
  if (Status status = write_plots(report, directory, ""); !status.ok()) return status;
  if (Status status = write_file((root / "policies.csv").string(), csv_of(report)); !status.ok()) {
    return status;
  }
  return write_file((root / "policies.md").string(), page_of(report));
}

}  // namespace quire::eval
