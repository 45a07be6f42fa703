// What `quire eval gate` says.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "eval/gate_eval.h"
#include "eval/model_page.h"
#include "eval/plot.h"

namespace quire::eval {
namespace {

const char* need_name(const std::optional<NeedClass>& need) {
  return need ? name_of(*need) : "all";
}

Json statistic_json(const StatisticSummary& summary) {
  Json classes = Json::array();
  for (const ClassValues& found : summary.classes) {
    classes.push_back({{"task", name_of(found.task)},
                       {"class", name_of(class_of(found.task))},
                       {"prompts", found.prompts},
                       {"mean", number_json(found.mean)},
                       {"deviation", number_json(found.deviation)},
                       {"open", number_json(found.open)},
                       {"open_left_out", number_json(found.open_left_out)}});
  }
  return {{"statistic", info_of(summary.fit.statistic).name},
          {"labelled_threshold", number_json(summary.fit.labelled)},
          {"z_mean", number_json(summary.fit.mean)},
          {"z_deviation", number_json(summary.fit.deviation)},
          {"auc", json_of(summary.auc)},
          {"harm_auc", json_of(summary.harm_auc)},
          {"same_document", number_json(summary.same_document)},
          {"classes", classes}};
}

// Plain reviews and gates, without the random twins' intervals of their own.
std::vector<const GatedArm*> arms_of(const GateReport& report, const std::string& policy,
                                     double keep, std::optional<NeedClass> need) {
  std::vector<const GatedArm*> arms;
  for (const GatedArm& arm : report.gates.arms) {
    if (arm.policy == policy && arm.keep == keep && arm.need == need) arms.push_back(&arm);
  }
  return arms;
}

// In the order they were measured, each once.
std::vector<std::pair<std::string, double>> points_of(const GateReport& report) {
  std::vector<std::pair<std::string, double>> points;
  for (const GatedArm& arm : report.gates.arms) {
    const std::pair point(arm.policy, arm.keep);
    if (std::ranges::find(points, point) == points.end()) points.push_back(point);
  }
  return points;
}

std::string statistics_table(const GateReport& report) {
  std::string text =
      "| statistic | AUC, dilution over capacity | AUC of harm within capacity | same decision in "
      "a "
      "document | threshold | z: mean, deviation |\n|---|---|---|---|---|---|\n";
  for (const StatisticSummary& summary : report.gates.statistics) {
    text += std::string("| `") + info_of(summary.fit.statistic).name + "` | " +
            with_interval(summary.auc) + " | " + with_interval(summary.harm_auc) + " | " +
            fixed(summary.same_document, 3) + " | " + fixed(summary.fit.labelled, 4) + " | " +
            fixed(summary.fit.mean, 4) + ", " + fixed(summary.fit.deviation, 4) + " |\n";
  }
  return text;
}

std::string classes_table(const StatisticSummary& summary) {
  std::string text =
      "| task | class | prompts | mean | deviation | open | open, fitted without it "
      "|\n|---|---|---|---|---|---|---|\n";
  for (const ClassValues& found : summary.classes) {
    text += std::string("| ") + name_of(found.task) + " | " + name_of(class_of(found.task)) +
            " | " + std::to_string(found.prompts) + " | " + fixed(found.mean, 4) + " | " +
            fixed(found.deviation, 4) + " | " + fixed(found.open, 3) + " | " +
            fixed(found.open_left_out, 3) + " |\n";
  }
  return text;
}

std::string point_table(const GateReport& report, const std::string& policy, double keep) {
  std::string text =
      "| gate | harm, capacity | open | harm, dilution | open | harm, all | open | "
      "bytes |\n|---|---|---|---|---|---|---|---|\n";
  for (const GatedArm* all : arms_of(report, policy, keep, {})) {
    text += "| " + all->gate;
    for (const NeedClass need : {NeedClass::kCapacity, NeedClass::kDilution}) {
      std::string cells = " | - | -";
      for (const GatedArm* arm : arms_of(report, policy, keep, need)) {
        if (arm->gate != all->gate) continue;
        cells = " | " + with_interval(arm->harm) + " | " + fixed(arm->open, 2);
      }
      text += cells;
    }
    text += " | " + with_interval(all->harm) + " | " + fixed(all->open, 2) + " | " +
            fixed(all->bytes_share, 3) + " |\n";
  }
  return text;
}

std::string self_checks_table(const GateReport& report) {
  std::string text = "| policy | keep | AUC of harm | within capacity |\n|---|---|---|---|\n";
  for (const SelfCheckSummary& found : report.gates.self_checks) {
    text += "| " + found.policy + " | " + fixed(found.keep * 100, 2) + " % | " +
            with_interval(found.harm_auc) + " | " + with_interval(found.capacity_harm_auc) + " |\n";
  }
  return text;
}

// Of what can be run, the least harm of all prompts that so many bytes can buy.
std::string safest_cells(const GateReport& report, double most, bool gated) {
  const GatedArm* best = nullptr;
  for (const GatedArm& arm : report.gates.arms) {
    const bool runs = gated ? arm.gate != "open" && arm.gate != "closed" && arm.gate != "oracle" &&
                                  !arm.gate.starts_with("random")
                            : arm.gate == "open";
    if (arm.need || !runs || arm.bytes_share > most || !std::isfinite(arm.harm.value)) continue;
    if (best == nullptr || arm.harm.value < best->harm.value) best = &arm;
  }
  if (best == nullptr) return " | - | - | -";
  const std::string gate = gated ? ", " + best->gate : "";
  return " | " + best->policy + " " + fixed(best->keep * 100, 2) + " %" + gate + " | " +
         with_interval(best->harm) + " | " + fixed(best->bytes_share, 3);
}

std::string safest_table(const GateReport& report) {
  std::string text =
      "| bytes at most | without a gate | harm | bytes | with one | harm | bytes "
      "|\n|---|---|---|---|---|---|---|\n";
  for (const double most : {0.15, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}) {
    text += "| " + fixed(most, 2) + safest_cells(report, most, false) +
            safest_cells(report, most, true) + " |\n";
  }
  return text;
}

std::string answered_text(const GateReport& report) {
  std::map<Task, std::pair<std::size_t, std::size_t>> counts;  // answered, asked
  for (const InputResult& input : report.quality.results) {
    counts[input.task].first += answered_of(input);
    counts[input.task].second += input.questions;
  }
  std::string text;
  for (const auto& [task, count] : counts) {
    text += std::string(text.empty() ? "" : ", ") + name_of(task) + " " +
            std::to_string(count.first) + " of " + std::to_string(count.second);
  }
  return text;
}

std::string plot_name(const GateReport& report, const std::string& policy) {
  std::string name = "gate-" + model_slug(report.quality.model_file) + "-" + policy;
  std::ranges::replace_if(
      name, [](char c) { return c == ':' || c == '=' || c == ',' || c == '/'; }, '_');
  return name + ".svg";
}

// Harm of all prompts by the bytes that were kept: gates by statistics beside plain reviews.
Plot plot_of(const GateReport& report, const std::string& policy) {
  Plot plot{.title = policy + ": harm at achieved bytes",
            .x_label = "bytes of the full cache",
            .y_label = "harm of all questions",
            .lines = {},
            .x_percent = true,
            .y_percent = true};
  for (const GatedArm& arm : report.gates.arms) {
    const bool shown = arm.policy == policy && !arm.need && arm.gate != "closed" &&
                       !arm.gate.starts_with("random");
    if (!shown) continue;
    auto line = std::ranges::find(plot.lines, arm.gate, &PlotLine::name);
    if (line == plot.lines.end()) {
      const bool dashed = arm.gate == "open" || arm.gate == "oracle";
      line = plot.lines.insert(line, {.name = arm.gate, .points = {}, .dashed = dashed});
    }
    line->points.push_back({arm.bytes_share, arm.harm.value, arm.harm.interval});
  }
  for (PlotLine& line : plot.lines) std::ranges::sort(line.points, {}, &PlotPoint::x);
  return plot;
}

std::string page_head() {
  return "# Gates\n\n"
         "Written by `quire eval gate --report`, a section for each model. Questions are read "
         "before the review, no token of an answer comes from the full cache. *harm*: of the "
         "questions that the full cache answers, and no others are asked, the share that the arm "
         "does not; intervals are "
         "95 % bootstraps over documents. A closed gate keeps the full cache. A statistic alone: "
         "its threshold lies half way between the means of both classes' calibration prompts; "
         "`:z`: " +
         fixed(engine::kGateZ, 2) +
         " deviations of all calibration prompts; `:signed`: the same place half way, open on the "
         "side of the dilution prompts, whichever it is. Their seeds are not those of the test. "
         "*self-check:X*: open where the review moves the first token's distribution by X nats at "
         "most (KL). *random as*: a gate that looks at nothing and is as often open, in "
         "expectation; *oracle*: open where nothing is harmed. *bytes*: achieved, of the full "
         "cache. Thresholds were written down before any run.\n\n";
}

std::string section_of(const GateReport& report) {
  const PoliciesReport& quality = report.quality;
  const std::string head =
      model_heading(quality) + ". Documents: " + std::to_string(quality.inputs) +
      "; calibration prompts of each task: " + std::to_string(report.calibration_prompts) +
      ". Questions that the full cache answers: " + answered_text(report) + ". Settings: `" +
      quality.header.at("options").dump() + "`.\n\n";
  std::string text = "## Checks\n\n";
  text += checks_page(report.gates.checks) +
          "\n## Safest at equal bytes\n\nThe policy, share and gate with the least harm of all "
          "prompts at so many achieved bytes.\n\n" +
          safest_table(report) + "\n## Statistics\n\n" + statistics_table(report);
  for (const StatisticSummary& summary : report.gates.statistics) {
    text += std::string("\n### ") + info_of(summary.fit.statistic).name + "\n\n" +
            classes_table(summary);
  }
  text +=
      "\n## Self-check\n\nThe KL of the first token behind the review from the full cache's: "
      "an answer that is kept has the smaller one.\n\n" +
      self_checks_table(report);
  std::string last;
  for (const auto& [policy, keep] : points_of(report)) {
    if (policy != last)
      text += "\n## " + policy + "\n\n![harm](plots/" + plot_name(report, policy) + ")\n";
    last = policy;
    text += "\n### " + policy + " at " + fixed(keep * 100, 2) + " %\n\n" +
            point_table(report, policy, keep);
  }
  return head + deeper(text);
}

}  // namespace

Json json_of(const GateReport& report) {
  Json statistics = Json::array(), self_checks = Json::array(), arms = Json::array();
  for (const StatisticSummary& summary : report.gates.statistics) {
    statistics.push_back(statistic_json(summary));
  }
  for (const SelfCheckSummary& found : report.gates.self_checks) {
    self_checks.push_back({{"policy", found.policy},
                           {"keep", found.keep},
                           {"harm_auc", json_of(found.harm_auc)},
                           {"capacity_harm_auc", json_of(found.capacity_harm_auc)}});
  }
  for (const GatedArm& arm : report.gates.arms) {
    arms.push_back({{"policy", arm.policy},
                    {"keep", arm.keep},
                    {"gate", arm.gate},
                    {"class", need_name(arm.need)},
                    {"harm", json_of(arm.harm)},
                    {"open", number_json(arm.open)},
                    {"bytes_share", number_json(arm.bytes_share)}});
  }
  return {{"quire_json", 1},
          {"model", report.quality.header.at("model")},
          {"options", report.quality.header.at("options")},
          {"inputs", report.quality.inputs},
          {"calibration_prompts", report.calibration_prompts},
          {"statistics", statistics},
          {"self_checks", self_checks},
          {"arms", arms},
          {"checks", json_of(report.gates.checks)}};
}

std::string table_of(const GateReport& report) {
  std::string text = statistics_table(report);
  for (const auto& [policy, keep] : points_of(report)) {
    text +=
        "\n" + policy + " at " + fixed(keep * 100, 2) + " %\n" + point_table(report, policy, keep);
  }
  return text + "\n" + checks_page(report.gates.checks);
}

std::string csv_of(const GateReport& report) {
  std::string text = "policy,keep,gate,class,open,bytes_share,harm,low,high,documents,n\n";
  for (const GatedArm& arm : report.gates.arms) {
    text += "\"" + arm.policy + "\"," + fixed(arm.keep, 6) + "," + arm.gate + "," +
            need_name(arm.need) + "," + fixed(arm.open, 6) + "," + fixed(arm.bytes_share, 6) + "," +
            fixed(arm.harm.value, 6) + "," + fixed(arm.harm.interval.low, 6) + "," +
            fixed(arm.harm.interval.high, 6) + "," + std::to_string(arm.harm.clusters) + "," +
            std::to_string(arm.harm.items) + "\n";
  }
  return text;
}

Status write_report(const GateReport& report, const std::string& directory) {
  const std::filesystem::path root(directory);
  std::error_code error;
  std::filesystem::create_directories(root / "plots", error);
  if (error) return {Code::kIo, "cannot make " + directory + ": " + error.message()};
  std::string last;
  for (const auto& [policy, keep] : points_of(report)) {
    if (policy == last) continue;
    last = policy;
    const std::string path = (root / "plots" / plot_name(report, policy)).string();
    if (Status status = write_file(path, svg(plot_of(report, policy))); !status.ok()) return status;
  }
  const std::string csv = "gate-" + model_slug(report.quality.model_file) + ".csv";
  if (Status status = write_file((root / csv).string(), csv_of(report)); !status.ok()) {
    return status;
  }
  return write_section((root / "gate.md").string(), page_head(), section_of(report));
}

}  // namespace quire::eval
