// What `quire eval vtoken` says.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "eval/plot.h"
#include "eval/policies_report.h"
#include "eval/vtoken_eval.h"

namespace quire::eval {
namespace {

std::string percent(double share) {
  return fixed(share * 100, 1) + " %";
}

struct Verdict {
  std::string name, threshold, found;
  bool pass = false;
};

std::string times(double ratio) {
  return fixed(ratio, 2) + " x";
}

void add_capacity(const CapacityReport& found, std::vector<Verdict>& all) {
  const auto add = [&](const char* name, double threshold, double value, bool pass) {
    all.push_back({name, times(threshold), times(value), pass});
  };
  add("requests together, repack to full: at least", kConcurrencyVsFullLeast,
      found.concurrency_vs_full, found.concurrency_vs_full >= kConcurrencyVsFullLeast);
  add("requests together, repack to whole: at least", kConcurrencyVsWholeLeast,
      found.concurrency_vs_whole, found.concurrency_vs_whole >= kConcurrencyVsWholeLeast);
  add("tokens a second, repack to whole: at least", kThroughputVsWholeLeast,
      found.throughput_vs_whole, found.throughput_vs_whole >= kThroughputVsWholeLeast);
  add("tokens a second, the worst cell: at least", kThroughputCellLeast,
      found.worst_throughput_cell, found.worst_throughput_cell >= kThroughputCellLeast);
  add("p95 of a request, repack to full: at most", kLatencyMost, found.latency_vs_full,
      found.latency_vs_full <= kLatencyMost);
}

std::string capacity_page(const CapacityReport& found) {
  std::string text =
      "## Requests together and tokens a second\n\nAll requests arrive at once; what one needs is "
      "measured alone, and the run holds the cell to it: nobody paused, preempted or restarted.\n\n"
      "| policy | pool | seed | arm | requests together | tok/s | p95 of a request, s | moved |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const CapacityCell& cell : found.cells) {
    text += "| " + cell.policy + " | " + percent(cell.pool) + " | " + std::to_string(cell.seed) +
            " | " + cell.arm + " | " + std::to_string(cell.concurrency) + " | " +
            fixed(cell.tok_s, 1) + " | " + fixed(cell.latency_p95, 2) + " | " +
            fixed(static_cast<double>(cell.moved_bytes) / (1 << 20), 1) + " MiB |\n";
  }
  return text + "\n";
}

Json capacity_json(const CapacityReport& found) {
  Json cells = Json::array();
  for (const CapacityCell& cell : found.cells) {
    cells.push_back({{"policy", cell.policy},
                     {"arm", cell.arm},
                     {"pool", cell.pool},
                     {"seed", cell.seed},
                     {"pool_bytes", cell.pool_bytes},
                     {"concurrency", cell.concurrency},
                     {"tok_s", cell.tok_s},
                     {"latency_p95", cell.latency_p95},
                     {"moved_bytes", cell.moved_bytes},
                     {"preemptions", cell.preemptions},
                     {"pauses", cell.pauses}});
  }
  return cells;
}

void add_hooks(const HookCost& cost, std::vector<Verdict>& all) {
  all.push_back({"hooks where memory is ample", "under 1 % of a step's processor time",
                 fixed(cost.processor_share * 100, 3) + " %",
                 cost.processor_share <= kIdleOverheadMost});
  const Interval& interval = cost.wall.interval;
  all.push_back({"steps with hooks to steps without, where memory is ample",
                 "the interval of the median includes 0 to 1 %, in part",
                 fixed(cost.wall.value * 100, 2) + " % [" + fixed(interval.low * 100, 2) + ", " +
                     fixed(interval.high * 100, 2) + "] longer, " +
                     std::to_string(cost.wall.clusters) + " pairs in turns",
                 interval.low <= kIdleOverheadMost && interval.high >= 0});
}

std::vector<Verdict> verdicts(const VtokenReport& report) {
  const bool equal = std::ranges::all_of(report.logits, &VtokenLogits::bit_equal);
  const bool moved = std::ranges::all_of(
      report.logits, [](const VtokenLogits& logits) { return logits.moved_entries > 0; });
  std::vector<Verdict> all = {
      {"blocks equal the oracle", "0 cells differ",
       std::to_string(report.oracle_mismatches) + " of " + std::to_string(report.cells.size()) +
           " cells differ",
       report.oracle_mismatches <= kMismatchesMost},
      {"saving of repack over whole, random holes", "within 1 point of 1 - (1-e) / (1-e^B)",
       "off by at most " + fixed(report.random_saving_error_points, 2) + " points",
       report.random_saving_error_points <= kSavingErrorPointsMost},
      {"negative controls", "saving at most 1 %", "at most " + percent(report.control_saving),
       report.control_saving <= kControlSavingMost},
      {"logits of never, whole and repack", "bit-equal for the same victims",
       std::string(equal ? "bit-equal" : "they differ") + (moved ? "" : "; nothing was moved"),
       equal && moved},
  };
  if (report.hooks) add_hooks(*report.hooks, all);
  if (report.capacity) add_capacity(*report.capacity, all);
  return all;
}

Json cell_json(const VtokenCell& cell) {
  return {{"model", cell.model},
          {"policy", cell.policy},
          {"setting", cell.setting},
          {"arm", cell.arm},
          {"ratio", cell.ratio},
          {"block_tokens", cell.block_tokens},
          {"tokens", cell.tokens},
          {"kept_mean", cell.kept_mean},
          {"blocks", cell.blocks},
          {"blocks_peak", cell.blocks_peak},
          {"oracle_blocks", cell.oracle_blocks},
          {"saving", cell.saving},
          {"expected_saving", cell.expected_saving ? Json(*cell.expected_saving) : Json(nullptr)},
          {"control", cell.control},
          {"waste", cell.waste},
          {"moved_entries", cell.moves.entries},
          {"moved_bytes", cell.moves.bytes},
          {"pass", cell.blocks == cell.oracle_blocks}};
}

// Cells of `repack`, by what they have in common.
std::vector<const VtokenCell*> repacked(const VtokenReport& report, const std::string& model,
                                        const std::string& setting) {
  std::vector<const VtokenCell*> cells;
  for (const VtokenCell& cell : report.cells) {
    if (cell.model != model || cell.arm != "repack" || cell.setting != setting) continue;
    cells.push_back(&cell);
  }
  return cells;
}

PlotLine& line_of(Plot& plot, const std::string& name, bool dashed) {
  const auto known = std::ranges::find(plot.lines, name, &PlotLine::name);
  if (known != plot.lines.end()) return *known;
  return plot.lines.emplace_back(PlotLine{.name = name, .points = {}, .dashed = dashed});
}

// Saving over the share evicted: random holes beside their formula, a line per block size.
Plot formula_plot(const VtokenReport& report, const std::string& model) {
  Plot plot{.title = "Random holes: blocks saved by repack over whole",
            .x_label = "entries evicted",
            .y_label = "blocks saved",
            .x_percent = true,
            .y_percent = true};
  for (const VtokenCell* cell : repacked(report, model, "formula")) {
    if (!cell->expected_saving) continue;
    const std::string name = "blocks of " + std::to_string(cell->block_tokens);
    line_of(plot, name, false).points.push_back({cell->ratio, cell->saving});
    line_of(plot, name + ", formula", true).points.push_back({cell->ratio, *cell->expected_saving});
  }
  return plot;
}

// The same of the policies, blocks of 16, the cache's defaults.
Plot policy_plot(const VtokenReport& report, const std::string& model) {
  Plot plot{.title = "Policies, defaults, blocks of 16: blocks saved by repack over whole",
            .x_label = "entries evicted",
            .y_label = "blocks saved",
            .x_percent = true,
            .y_percent = true};
  for (const VtokenCell* cell : repacked(report, model, "default")) {
    if (cell->block_tokens != 16) continue;
    line_of(plot, cell->policy, false).points.push_back({cell->ratio, cell->saving});
  }
  return plot;
}

std::string cells_page(const VtokenReport& report, const std::string& model,
                       const std::string& setting) {
  std::string text =
      "| policy | evicted | block | never | whole | repack | oracle | saving | formula | waste | "
      "moved | |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i + 2 < report.cells.size(); i += 3) {
    const VtokenCell &never = report.cells[i], &whole = report.cells[i + 1],
                     &repack = report.cells[i + 2];
    if (repack.model != model || repack.setting != setting) continue;
    const bool pass = never.blocks == never.oracle_blocks && whole.blocks == whole.oracle_blocks &&
                      repack.blocks == repack.oracle_blocks;
    text += "| " + repack.policy + (repack.control ? " (control)" : "") + " | " +
            percent(repack.ratio) + " | " + std::to_string(repack.block_tokens) + " | " +
            std::to_string(never.blocks) + " | " + std::to_string(whole.blocks) + " | " +
            std::to_string(repack.blocks) + " | " + std::to_string(repack.oracle_blocks) + " | " +
            percent(repack.saving) + " | " +
            (repack.expected_saving ? percent(*repack.expected_saving) : "") + " | " +
            percent(whole.waste) + " to " + percent(repack.waste) + " | " +
            std::to_string(repack.moves.entries) + " | " + (pass ? "pass" : "fail") + " |\n";
  }
  return text + "\n";
}

// "" of the first model, "2" of the second.
std::string number_of(std::size_t model) {
  return model == 0 ? "" : std::to_string(model + 1);
}

std::string model_page(const VtokenReport& report, const std::string& model, std::size_t at) {
  const std::string number = number_of(at);
  const std::string no = at == 0 ? "No" : model + ": no", the = at == 0 ? "The" : model + ": the";
  return "![formula](plots/vtoken-formula" + number + ".svg)\n\n![policies](plots/vtoken-policies" +
         number + ".svg)\n\n## " + no + " protection, repacked as far as it goes\n\n" +
         cells_page(report, model, "formula") + "## " + the +
         " cache's defaults, each policy's protection\n\n" + cells_page(report, model, "default");
}

std::string page_of(const VtokenReport& report) {
  const std::vector<std::string> models = models_of(report);
  std::string names;
  for (const std::string& model : models) names += (names.empty() ? "" : " and ") + model;
  std::string text =
      "# Repacking: evicted entries become free blocks\n\n"
      "Written by `quire eval vtoken --report`, of " +
      names +
      ". Victims were recorded on the model and replayed under each way to reclaim memory; "
      "*oracle* "
      "counts blocks from positions alone. Saving: of `repack` over `whole`, for the same "
      "victims.\n\n| check | threshold | found | |\n|---|---|---|---|\n";
  for (const Verdict& verdict : verdicts(report)) {
    text += "| " + verdict.name + " | " + verdict.threshold + " | " + verdict.found + " | " +
            (verdict.pass ? "pass" : "fail") + " |\n";
  }
  text += "\n";
  for (std::size_t i = 0; i < models.size(); ++i) text += model_page(report, models[i], i);
  if (report.capacity) text += capacity_page(*report.capacity);
  if (report.peer) text += page_of(*report.peer, *report.capacity);
  for (const std::string& policy : report.left_out) {
    text += "Left out: " + policy + ", which this build does not have.\n";
  }
  return text;
}

std::string csv_of(const VtokenReport& report) {
  std::string text =
      "model,policy,setting,arm,ratio,block_tokens,tokens,kept_mean,blocks,blocks_peak,"
      "oracle_blocks,saving,expected_saving,control,waste,moved_entries,moved_bytes\n";
  for (const VtokenCell& c : report.cells) {
    text += "\"" + c.model + "\",\"" + c.policy + "\"," + c.setting + "," + c.arm + "," +
            fixed(c.ratio, 3) + "," + std::to_string(c.block_tokens) + "," +
            std::to_string(c.tokens) + "," + fixed(c.kept_mean, 2) + "," +
            std::to_string(c.blocks) + "," + std::to_string(c.blocks_peak) + "," +
            std::to_string(c.oracle_blocks) + "," + fixed(c.saving, 6) + "," +
            (c.expected_saving ? fixed(*c.expected_saving, 6) : "") + "," +
            (c.control ? "1," : "0,") + fixed(c.waste, 6) + "," + std::to_string(c.moves.entries) +
            "," + std::to_string(c.moves.bytes) + "\n";
  }
  return text;
}

}  // namespace

Json json_of(const VtokenReport& report) {
  Json cells = Json::array(), logits = Json::array(), checks = Json::array();
  for (const VtokenCell& cell : report.cells) cells.push_back(cell_json(cell));
  for (const VtokenLogits& one : report.logits) {
    logits.push_back({{"model", one.model},
                      {"policy", one.policy},
                      {"rows", one.rows},
                      {"reviews", one.reviews},
                      {"moved_entries", one.moved_entries},
                      {"bit_equal", one.bit_equal}});
  }
  for (const Verdict& verdict : verdicts(report)) {
    checks.push_back({{"name", verdict.name},
                      {"threshold", verdict.threshold},
                      {"found", verdict.found},
                      {"pass", verdict.pass}});
  }
  Json summary = {{"oracle_mismatches", report.oracle_mismatches},
                  {"random_saving_error_points", report.random_saving_error_points},
                  {"control_saving", report.control_saving}};
  if (report.capacity) {
    summary["concurrency_vs_full"] = report.capacity->concurrency_vs_full;
    summary["concurrency_vs_whole"] = report.capacity->concurrency_vs_whole;
    summary["throughput_vs_whole"] = report.capacity->throughput_vs_whole;
    summary["throughput_worst_cell"] = report.capacity->worst_throughput_cell;
    summary["latency_vs_full"] = report.capacity->latency_vs_full;
  }
  if (report.peer) {
    summary["concurrency_vs_llama"] = report.peer->concurrency;
    summary["throughput_vs_llama"] = report.peer->throughput;
  }
  if (report.hooks) {
    const Estimate& wall = report.hooks->wall;
    summary["idle_overhead"] = report.hooks->processor_share;
    summary["idle_overhead_wall"] = wall.value;
    summary["idle_overhead_wall_interval"] = {wall.interval.low, wall.interval.high};
  }
  return {{"quire_json", 1},
          {"model", report.model},
          {"cells", cells},
          {"capacity", report.capacity ? capacity_json(*report.capacity) : Json::array()},
          {"llama", report.peer ? json_of(*report.peer) : Json::array()},
          {"logits", logits},
          {"summary", summary},
          {"checks", checks},
          {"left_out", report.left_out}};
}

std::string table_of(const VtokenReport& report) {
  std::string text;
  char buffer[200];
  std::snprintf(buffer, sizeof(buffer), "%-30s %-8s %8s %6s %9s %9s %9s %8s %8s\n", "policy",
                "setting", "evicted", "block", "never", "whole", "repack", "saving", "formula");
  text += buffer;
  for (std::size_t i = 0; i + 2 < report.cells.size(); i += 3) {
    const VtokenCell& repack = report.cells[i + 2];
    if (i > 0 && repack.model != report.cells[i - 1].model) text += repack.model + "\n";
    std::snprintf(buffer, sizeof(buffer), "%-30s %-8s %8s %6u %9llu %9llu %9llu %8s %8s%s\n",
                  repack.policy.c_str(), repack.setting.c_str(), percent(repack.ratio).c_str(),
                  repack.block_tokens, static_cast<unsigned long long>(report.cells[i].blocks),
                  static_cast<unsigned long long>(report.cells[i + 1].blocks),
                  static_cast<unsigned long long>(repack.blocks), percent(repack.saving).c_str(),
                  repack.expected_saving ? percent(*repack.expected_saving).c_str() : "",
                  repack.blocks == repack.oracle_blocks ? "" : "  not the oracle's");
    text += buffer;
  }
  text += "\n";
  for (const Verdict& verdict : verdicts(report)) {
    text += std::string(verdict.pass ? "pass  " : "FAIL  ") + verdict.name + ": " + verdict.found +
            " (" + verdict.threshold + ")\n";
  }
  if (report.peer) {
    text += "beside libllama's unified cache, repack at least: requests together " +
            times(report.peer->concurrency) + ", tokens a second " +
            times(report.peer->throughput) + "\n";
  }
  for (const std::string& policy : report.left_out) {
    text += "left out: " + policy + ", which this build does not have\n";
  }
  return text;
}

Status write_report(const VtokenReport& report, const std::string& directory) {
  const std::filesystem::path root(directory);
  std::error_code error;
  std::filesystem::create_directories(root / "plots", error);
  if (error) return {Code::kIo, "cannot make " + directory + ": " + error.message()};
  std::vector<std::pair<std::filesystem::path, std::string>> files = {
      {root / "vtoken.csv", csv_of(report)}, {root / "vtoken.md", page_of(report)}};
  const std::vector<std::string> models = models_of(report);
  for (std::size_t i = 0; i < models.size(); ++i) {
    const std::string end = number_of(i) + ".svg";
    files.emplace_back(root / "plots" / ("vtoken-formula" + end),
                       svg(formula_plot(report, models[i])));
    files.emplace_back(root / "plots" / ("vtoken-policies" + end),
                       svg(policy_plot(report, models[i])));
  }
  for (const auto& [path, text] : files) {
    if (Status status = write_file(path.string(), text); !status.ok()) return status;
  }
  return {};
}

}  // namespace quire::eval
