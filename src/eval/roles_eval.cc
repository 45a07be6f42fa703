#include "eval/roles_eval.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "eval/json_data.h"

namespace quire::eval {
namespace {

const std::vector<std::string> kAnchors = {"sink-recency", "random"};
// Of a prompt over its share, which all are, it is random: few shares will do to show it.
const std::vector<std::string> kPromptRandom = {"prompt-random"};
const std::vector<std::string> kUnprotected = {"h2o:sinks=0,recent=0",
                                               "snapkv-max7:sinks=0,recent=0"};
const std::vector<double> kDiagnosisKeeps = {0.05, kSmallKeep, kFifthKeep};

std::vector<std::string> of_each_score(std::string (*spec)(const std::string&)) {
  std::vector<std::string> specs;
  for (const char* score : kRoleScores) specs.push_back(spec(score));
  return specs;
}

std::string plain(const std::string& score) {
  return score;
}
std::string roles_of(const std::string& score) {
  return with_roles(score);
}

// Roles without the weights, one role banned, and the authors' form, which protects nothing.
std::vector<std::string> controls() {
  return {"role-control:score=snapkv-max7,rule=fair",    "role-control:score=h2o,rule=fair",
          "role-control:score=h2o,rule=ban-key",         "role-control:score=h2o,rule=ban-value",
          "role-control:score=h2o,rule=ban-delimiter",   "snapkv-max7:sinks=0,recent=0",
          with_roles("snapkv-max7", ",sinks=0,recent=0")};
}

// Shares of the key role beside the standard one of .02.
std::vector<std::string> key_shares() {
  std::vector<std::string> specs;
  for (const char* key : {"0", "0.05", "0.1", "0.2"}) {
    specs.push_back(with_roles("snapkv-max7", std::string(",key=") + key));
  }
  return specs;
}

bool asked_for(const std::vector<Task>& tasks, Task task) {
  return std::ranges::find(tasks, task) != tasks.end();
}

std::vector<Task> structured(const std::vector<Task>& tasks) {
  std::vector<Task> found;
  std::ranges::copy_if(kStructuredTasks, std::back_inserter(found),
                       [&](Task task) { return asked_for(tasks, task); });
  return found;
}

// Documents of all files in turn, so that few seeds take some of each.
Status read_files(const model::Model& model, const RolesOptions& options,
                  PoliciesOptions& quality) {
  const TokenCount count = [&](std::string_view text) {
    return model.tokenize(text, false, false).size();
  };
  const auto files = static_cast<std::uint32_t>(options.files.size());
  const JsonShape shape{.tokens = quality.inputs.tokens,
                        .questions = quality.inputs.questions,
                        .documents = (quality.seeds + files - 1) / files};
  std::vector<std::vector<Document>> read;
  for (const JsonFile& file : options.files) {
    Result<std::vector<Document>> documents =
        json_documents(file.text, file.name, shape, Stream(0, file.name), count);
    if (!documents.ok()) return documents.status();
    read.push_back(*std::move(documents));
    quality.data_name += (quality.data_name.empty() ? "" : ", ") + file.name;
  }
  for (std::size_t i = 0; i < shape.documents; ++i) {
    for (std::vector<Document>& documents : read) {
      if (i < documents.size()) quality.data.push_back(std::move(documents[i]));
    }
  }
  return {};
}

// What the diagnosis takes of the time.
constexpr double kDiagnosisPart = 0.05;

using Bar = std::function<void(double share, const std::string& doing)>;

Bar part_of(const Bar& bar, double from, double to) {
  if (!bar) return {};
  return [=](double share, const std::string& doing) { bar(from + (to - from) * share, doing); };
}

DiagnosisOptions diagnosis_of(const PoliciesOptions& quality, const Bar& bar) {
  return {.policies = kUnprotected,
          .keeps = kDiagnosisKeeps,
          .tasks = structured(quality.tasks),
          .seeds = quality.seeds,
          .log_path = quality.log_path.empty() ? "" : quality.log_path + ".diagnosis",
          .cancel = quality.cancel,
          .on_progress = part_of(bar, 1 - kDiagnosisPart, 1)};
}

}  // namespace

std::string with_roles(const std::string& score, const std::string& more) {
  std::string wrapped = score;
  std::ranges::replace(wrapped, ':', ',');
  return "role-conditional:score=" + wrapped + more;
}

std::string shuffled_roles(const std::string& score) {
  return with_roles(score, ",shuffle=1");
}

std::string short_name(const Arm& arm) {
  constexpr std::string_view kBegin = "role-conditional:score=", kWindow = ",window=32";
  if (arm.policy == kAhead) return "snapkv-ahead";
  if (!arm.policy.starts_with(kBegin)) return arm.label();
  const std::string rest = arm.policy.substr(kBegin.size());
  const std::size_t comma = std::min(rest.find(','), rest.size());
  const std::string name = rest.substr(0, comma);
  std::string options = rest.substr(comma);
  if (options.starts_with(kWindow)) options.erase(0, kWindow.size());
  if (options == ",shuffle=1") return name + " + shuffled";
  if (!options.empty()) options[0] = ' ';
  const std::string labels = arm.labels.empty() ? "" : " [" + arm.labels + "]";
  return name + " + roles" + options + labels;
}

void arrange(RolesOptions& options) {
  arrange(options.tasks);
  PoliciesOptions& quality = options.tasks.quality;
  quality.second = false;
  quality.oracle = false;
  quality.labels = options.labels;
  std::erase_if(quality.tasks,
                [&](Task task) { return task == Task::kData && options.files.empty(); });
  std::vector<double> judged;
  for (const double keep : quality.keeps) {
    if (keep == kSmallKeep || keep == kFifthKeep) judged.push_back(keep);
  }
  const std::vector<Task> texts = structured(quality.tasks);
  const std::vector<Task> costs(std::begin(kCostTasks), std::end(kCostTasks));
  quality.comparisons = {{texts, kAnchors, quality.keeps},
                         {texts, kPromptRandom, judged},
                         {texts, of_each_score(plain), quality.keeps},
                         {texts, of_each_score(roles_of), quality.keeps},
                         {texts, of_each_score(shuffled_roles), judged},
                         {{Task::kJson, Task::kJsonCompact}, key_shares(), judged},
                         {{Task::kJson}, controls(), judged},
                         {costs, kAnchors, judged},
                         {costs, kPromptRandom, judged},
                         {costs, of_each_score(plain), judged},
                         {costs, of_each_score(roles_of), judged}};
  for (const LabelSource& source : options.labels) {
    quality.comparisons.push_back({texts, of_each_score(roles_of), quality.keeps, source.name});
  }
}

Result<RolesReport> evaluate_roles(model::Model& model, const CacheOptions& like,
                                   const RolesOptions& options) {
  TasksOptions tasks = options.tasks;
  PoliciesOptions& quality = tasks.quality;
  if (!options.files.empty()) {
    if (Status status = read_files(model, options, quality); !status.ok()) return status;
  }
  quality.on_progress = part_of(options.tasks.quality.on_progress, 0, 1 - kDiagnosisPart);
  Result<TasksReport> measured = evaluate_tasks(model, like, tasks);
  if (!measured.ok()) return measured.status();
  RolesReport report{.tasks = *std::move(measured)};
  const InputMaker maker(model, quality.text, quality.inputs, quality.data);
  Result<std::vector<RoleDiagnosis>> diagnosis =
      diagnose_roles(model, like, maker, report.tasks.quality.header,
                     diagnosis_of(quality, options.tasks.quality.on_progress));
  if (!diagnosis.ok()) return diagnosis.status();
  report.diagnosis = *std::move(diagnosis);
  report.checks = report.tasks.quality.summary.checks;
  const std::vector<Check> found =
      role_checks(report.tasks.quality.results, report.diagnosis, report.not_measured);
  report.checks.insert(report.checks.end(), found.begin(), found.end());
  return report;
}

Estimate gap_closed(const std::vector<InputResult>& results, Task task, View view, const Arm& arm) {
  std::vector<Share> documents;
  for (const InputResult& input : results) {
    if (input.task != task) continue;
    const auto mine = std::ranges::find(input.arms, arm, &ArmResult::arm);
    const auto h2o = std::ranges::find(input.arms, Arm{kRoleScores[0], arm.keep}, &ArmResult::arm);
    if (mine == input.arms.end() || h2o == input.arms.end()) continue;
    Share sum{.items = 0};
    const std::vector<QuestionScore>&scores = mine->scores(view), &lost = h2o->scores(view);
    for (std::size_t q = 0; q < std::min(scores.size(), lost.size()); ++q, ++sum.items) {
      const double base = lost[q].right ? 1 : 0;
      sum.part += (scores[q].right ? 1 : 0) - base;
      sum.whole += (scores[q].full_right ? 1 : 0) - base;
    }
    if (sum.items > 0) documents.push_back(sum);
  }
  return bootstrap_share(documents);
}

}  // namespace quire::eval
