#include "eval/roles_page.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>

namespace quire::eval {
namespace {

std::string share(double keep) {
  return fixed(keep * 100, 0) + " %";
}

using Wanted = std::function<bool(const Cell&)>;

using Shown = std::function<std::string(const Cell&)>;

// Of questions EM % and log-probability, of text NLL over the full cache's.
std::string value_of(const Cell& cell) {
  const Measure* right = cell.measure("right");
  if (right == nullptr) {
    return with_interval(cell.measure("nll_over_full")->estimate) +
           (cell.only_protected ? " !" : "");
  }
  return with_interval(right->estimate, 100, 0) + "; " +
         fixed(cell.measure("log_p")->estimate.value, 2) + (cell.only_protected ? " !" : "");
}

// A line per arm, a column per keep.
std::string arms_page(const Summary& summary, const Wanted& wanted, const Shown& shown = value_of) {
  std::set<double> keeps;
  std::vector<std::string> arms;
  std::string full;
  for (const Cell& cell : summary.cells) {
    if (!wanted(cell)) continue;
    if (cell.arm.policy == kFull) {
      full = "Full cache: " + value_of(cell) + ".\n\n";
      continue;
    }
    keeps.insert(cell.arm.keep);
    const std::string name = short_name(cell.arm);
    if (std::ranges::find(arms, name) == arms.end()) arms.push_back(name);
  }
  std::string text = full + "| arm |", rule = "|---|";
  for (const double keep : keeps) text += " " + share(keep) + " |", rule += "---|";
  text += "\n" + rule + "\n";
  for (const std::string& name : arms) {
    text += "| " + name + " |";
    for (const double keep : keeps) {
      const auto cell = std::ranges::find_if(summary.cells, [&](const Cell& one) {
        return wanted(one) && one.arm.keep == keep && short_name(one.arm) == name;
      });
      text += " " + (cell == summary.cells.end() ? "" : shown(*cell)) + " |";
    }
    text += "\n";
  }
  return text + "\n";
}

std::string task_pages(const RolesReport& report, const std::string& prefix) {
  const Summary& summary = report.tasks.quality.summary;
  std::string text;
  for (const Task task : kStructuredTasks) {
    for (const View view : {View::kAware, View::kBlind}) {
      const auto here = [&](const Cell& cell) { return cell.task == task && cell.view == view; };
      if (std::ranges::none_of(summary.cells, here)) continue;
      const std::string name = std::string(name_of(task)) + "-" + name_of(view) + "-16-";
      text += "### " + std::string(name_of(task)) + ", " + name_of(view) + "\n\n";
      for (const char* measure : {"log_p", "retained"}) {
        text +=
            "![" + std::string(measure) + "](plots/" + prefix + "-" + name + measure + ".svg)\n\n";
      }
      text += arms_page(summary, [&](const Cell& cell) {
        return here(cell) && !is_control(cell.arm) && !is_key_share(cell.arm);
      });
    }
  }
  return text;
}

// Share of the gap of each arm but H2O, a column per keep.
std::string gap_page(const RolesReport& report) {
  const auto shown = [](const Cell& cell) {
    return cell.view == View::kAware && cell.arm.policy != kFull &&
           cell.arm.policy != kRoleScores[0] && !is_anchor(cell.arm.policy) &&
           !is_control(cell.arm) && !is_key_share(cell.arm);
  };
  std::string text =
      "### Share of the gap closed\n\n(EM - EM of H2O) / (EM of the full cache - EM of H2O), "
      "question-aware.\n\n";
  for (const Task task : kStructuredTasks) {
    const Wanted here = [&](const Cell& cell) { return cell.task == task && shown(cell); };
    if (std::ranges::none_of(report.tasks.quality.summary.cells, here)) continue;
    text += "*" + std::string(name_of(task)) + "*\n\n" +
            arms_page(report.tasks.quality.summary, here, [&](const Cell& cell) {
              return with_interval(
                  gap_closed(report.tasks.quality.results, task, View::kAware, cell.arm), 1, 2);
            });
  }
  return text;
}

std::string section_of(const Summary& summary, const std::string& title, Task task,
                       std::optional<View> view, bool (*wanted)(const Arm&)) {
  const Wanted here = [&](const Cell& cell) {
    return cell.task == task && cell.view == view && (cell.arm.policy == kFull || wanted(cell.arm));
  };
  const bool any = std::ranges::any_of(
      summary.cells, [&](const Cell& cell) { return here(cell) && cell.arm.policy != kFull; });
  return any ? "*" + title + "*: " + arms_page(summary, here) : "";
}

std::string controls_page(const Summary& summary) {
  const auto compared = [](const Arm& arm) {
    return is_control(arm) || arm.policy == "h2o" || arm.policy == "snapkv-max7" ||
           arm.policy == with_roles("snapkv-max7");
  };
  const auto shares = [](const Arm& arm) {
    return is_key_share(arm) || arm.policy == with_roles("snapkv-max7");
  };
  std::string text =
      "### Controls\n\nFair rates, banned roles, the authors' form without protection.\n\n";
  for (const View view : {View::kAware, View::kBlind}) {
    text += section_of(summary, std::string("json, ") + name_of(view), Task::kJson, view, compared);
  }
  text += "### Shares of the key role\n\nThe standard is .02.\n\n";
  for (const Task task : {Task::kJson, Task::kJsonCompact}) {
    for (const View view : {View::kAware, View::kBlind}) {
      text += section_of(summary, std::string(name_of(task)) + ", " + name_of(view), task, view,
                         shares);
    }
  }
  return text;
}

std::string costs_page(const Summary& summary) {
  const auto all = [](const Arm&) { return true; };
  std::string text =
      "### What roles cost\n\nProse, which has none (NLL over the full cache, nats), needles in "
      "it, and questions that ask for keys. Where less than half of a text is structured, the "
      "policy leaves the choice to its score: there both are equal to the bit.\n\n";
  text += section_of(summary, "prose", Task::kProse, {}, all);
  for (const Task task : kCostTasks) {
    if (continues(task)) continue;
    for (const View view : {View::kAware, View::kBlind}) {
      text +=
          section_of(summary, std::string(name_of(task)) + ", " + name_of(view), task, view, all);
    }
  }
  return text;
}

}  // namespace

bool is_control(const Arm& arm) {
  return arm.policy.starts_with("role-control") || arm.policy.find("recent=") != std::string::npos;
}

bool is_key_share(const Arm& arm) {
  return arm.policy.find(",key=") != std::string::npos;
}

std::string roles_page_head() {
  return "# Budgets by role in structured text\n\n"
         "Written by `quire eval roles --report`, a section for each model. Keep is entries of a "
         "lane as a share of the document's tokens; every arm protects the same entries, but those "
         "that say otherwise. *aware*: the question is read before the review, and no token of its "
         "answer comes from the full cache (strict). *blind*: the review comes at the document's "
         "end. Cells are EM in %, with its 95 % bootstrap interval over documents, and nats a "
         "token "
         "of the answer, teacher-forced; `!`: no more than the protected entries. *roles*: "
         "arXiv 2607.13205 over the score named (`snapkv-max7` is what its authors score by); "
         "*shuffled*: the same with roles dealt out anew. The thresholds were written down before "
         "any run, for Qwen2.5-Coder-0.5B. Wilson intervals and all other numbers are in the "
         "CSV.\n\n";
}

std::string roles_section(const RolesReport& report, const std::string& prefix) {
  const Json& header = report.tasks.quality.header;
  const Json &model = header.at("model"), &options = header.at("options");
  std::string text = "## " + report.tasks.quality.model_file + "\n\n" +
                     model.at("name").get<std::string>() + ", " +
                     model.at("quantization").get<std::string>() + ", fingerprint " +
                     model.at("fingerprint").get<std::string>() + ", cache " +
                     report.tasks.kv_type + "; " + std::to_string(report.tasks.quality.inputs) +
                     " inputs, documents of " + options.at("tokens").dump() + " tokens, " +
                     options.at("questions").dump() + " questions each, newest " +
                     (options.contains("recent") ? options.at("recent").dump() : "-") +
                     " entries and first 4 protected.";
  if (options.contains("data")) {
    text += " Real JSON: " + options.at("data").get<std::string>() + ".";
  }
  text += " [All numbers](" + prefix + ".csv).\n\n### Thresholds\n\n" + checks_page(report.checks);
  for (const std::string& name : report.not_measured) text += "Not measured: " + name + ".\n\n";
  const Summary& summary = report.tasks.quality.summary;
  return text + diagnosis_page(report.diagnosis) + task_pages(report, prefix) + gap_page(report) +
         controls_page(summary) + costs_page(summary);
}

}  // namespace quire::eval
