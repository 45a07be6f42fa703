// What `quire eval tasks` says.

#include <cmath>
#include <filesystem>

#include "eval/model_page.h"
#include "eval/tasks_eval.h"

namespace quire::eval {
namespace {

// Names in the output, and the cell's measures that they are.
struct Column {
  const char *name, *measure;
};
constexpr Column kColumns[] = {
    {"em", "right"},  {"em_full", "full_right"}, {"retained", "retained"},
    {"harm", "harm"}, {"logprob", "log_p"},      {"nll", "nll"},
    {"kl", "kl"}};

Json pair_json(const Interval& interval) {
  if (!std::isfinite(interval.low)) return nullptr;
  return Json::array({interval.low, interval.high});
}

Json arm_json(const Cell& cell, const std::string& kv_type) {
  const Estimate& any = cell.measure("kl")->estimate;
  Json arm = {{"task", name_of(cell.task)},
              {"view", cell.view ? Json(name_of(*cell.view)) : Json(nullptr)},
              {"policy", cell.arm.policy},
              {"keep", cell.arm.keep},
              {"gate", cell.arm.gate},
              {"labels", labels_of(cell.arm)},
              {"mode", "strict"},
              {"kv_type", kv_type},
              {"open_rate", cell.open_share},
              {"n", any.items},
              {"documents", any.clusters}};
  Json intervals = Json::object();
  for (const Column& column : kColumns) {
    const Measure* measure = cell.measure(column.measure);
    arm[column.name] = measure == nullptr ? Json(nullptr) : number_json(measure->estimate.value);
    if (measure == nullptr) continue;
    Json& ci = intervals[column.name] = {{"documents", pair_json(measure->estimate.interval)}};
    if (measure->wilson) ci["wilson"] = pair_json(*measure->wilson);
  }
  arm["entries"] = cell.entries;
  arm["bytes"] = cell.bytes;
  arm["bytes_share"] = cell.bytes_share;
  arm["only_protected"] = cell.only_protected;
  arm["ci"] = std::move(intervals);
  return arm;
}

std::string page_head() {
  return "# Tasks at a share of the document's tokens\n\n"
         "Written by `quire eval tasks --report`, a section for each model. Each document is read "
         "once for each kind of watching; arms are forks of it, beside a fork that never shrinks, "
         "in the same steps. Keep is entries of a lane as a share of the document's tokens, bytes "
         "are what they take with tables, masks and sums. *blind*: the review comes at the "
         "document's end, then all questions are asked of what is left. *aware*: a question is "
         "read first, and no token of its answer comes from the full cache. *second*: another "
         "question on what an aware review left. *right*: greedy, exact; *retained*: of the "
         "questions that the full cache answers; *harm*: the full cache is right and the arm "
         "wrong, of all questions; *log_p*: nats a token of the answer, teacher-forced. Intervals "
         "are 95 % bootstraps over documents. *over random* is the paired difference to `random` "
         "(log_p; prose and drift: KL), above 0 is better.\n\n";
}

std::string section_of(const TasksReport& report, const std::string& prefix) {
  const PoliciesReport& quality = report.quality;
  return model_heading(quality) + ", cache " + report.kv_type +
         ". Inputs: " + std::to_string(quality.inputs) + ". Settings: `" +
         quality.header.at("options").dump() + "`.\n\n" +
         deeper("## Checks\n\n" + checks_page(quality.summary.checks) +
                sections_page(quality, prefix));
}

}  // namespace

Json json_of(const TasksReport& report) {
  Json arms = Json::array();
  for (const Cell& cell : report.quality.summary.cells) {
    arms.push_back(arm_json(cell, report.kv_type));
  }
  return {{"quire_json", 1},
          {"model", report.quality.header.at("model")},
          {"options", report.quality.header.at("options")},
          {"inputs", report.quality.inputs},
          {"arms", arms},
          {"checks", json_of(report.quality.summary.checks)}};
}

std::string table_of(const TasksReport& report) {
  return table_of(report.quality);
}

std::string csv_of(const TasksReport& report) {
  std::string text =
      "task,view,policy,keep,gate,labels,kv_type,open_rate,entries,bytes,bytes_share,measure,value,"
      "low,"
      "high,wilson_low,wilson_high,documents,n\n";
  for (const Cell& cell : report.quality.summary.cells) {
    const std::string arm = std::string(name_of(cell.task)) + "," +
                            (cell.view ? name_of(*cell.view) : "") + ",\"" + cell.arm.policy +
                            "\"," + fixed(cell.arm.keep, 6) + "," + cell.arm.gate + "," +
                            labels_of(cell.arm) + "," + report.kv_type + "," +
                            fixed(cell.open_share, 6) + "," + fixed(cell.entries, 1) + "," +
                            fixed(cell.bytes, 0) + "," + fixed(cell.bytes_share, 6) + ",";
    for (const Column& column : kColumns) {
      const Measure* measure = cell.measure(column.measure);
      if (measure == nullptr) continue;
      const Estimate& e = measure->estimate;
      text += arm + column.name + "," + fixed(e.value, 9) + "," + fixed(e.interval.low, 9) + "," +
              fixed(e.interval.high, 9) + "," +
              (measure->wilson ? fixed(measure->wilson->low, 9) : "") + "," +
              (measure->wilson ? fixed(measure->wilson->high, 9) : "") + "," +
              std::to_string(e.clusters) + "," + std::to_string(e.items) + "\n";
    }
  }
  return text;
}

Status write_report(const TasksReport& report, const std::string& directory) {
  const std::filesystem::path root(directory);
  const std::string name = "tasks-" + model_slug(report.quality.model_file);
  Status status = write_plots(report.quality, directory, name + "-");
  if (status.ok()) status = write_file((root / (name + ".csv")).string(), csv_of(report));
  if (!status.ok()) return status;
  return write_section((root / "tasks.md").string(), page_head(), section_of(report, name + "-"));
}

}  // namespace quire::eval
