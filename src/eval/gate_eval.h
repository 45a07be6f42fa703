// `quire eval gate`: what gates prevent.  Every gate on the same reviews: each statistic with a
// threshold from prompts of other seeds, self-checks, a random gate of equal open rate, an oracle,
// and none.
// Gates select between what was measured and the full cache, so one log serves all.
//
// Questions are read before the review (aware), those alone that the full cache answers.  Harm: the
// share of them that the arm does not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/gate_calibration.h"
#include "eval/policies_eval.h"

namespace quire::eval {

// What a prompt needs of its entries: near-identical keys every one; prose with facts in it few.
enum class NeedClass : std::uint8_t { kCapacity, kDilution, kOther };
inline constexpr NeedClass kNeedClasses[] = {NeedClass::kCapacity, NeedClass::kDilution,
                                             NeedClass::kOther};
const char* name_of(NeedClass need);
NeedClass class_of(Task task);

// Written down before any run (arXiv 2609.22157's numbers, on models a fourth the size), judged
// at the largest share where the first policy alone harms kPlainHarmLeast of the capacity class.
// And of the control: that the interval of its AUC includes .5.
constexpr double kPlainHarmLeast = 0.4;
constexpr double kHarmFallsBy = 5;     // of the capacity class, plain by gated
constexpr double kDilutionOpen = 0.8;  // of the dilution prompts, at least
constexpr double kOfRandomMost = 0.5;  // harm of all, by that of a random gate as often open

// Of one statistic, from calibration prompts alone.
struct GateFit {
  Statistic statistic{};
  double labelled = 0;             // threshold half way between the classes' means
  double half = 0;                 // from there to the dilution class's mean: mode signed
  double mean = 0, deviation = 1;  // over all of them: mode z
  engine::GateCalibration calibration(engine::GateMode mode) const;
};
// `leave_out`: prompts of this task are not looked at.
GateFit fit_gate(Statistic statistic, const std::vector<LabelledValues>& prompts,
                 std::optional<Task> leave_out = {});

struct ClassValues {
  Task task{};
  std::size_t prompts = 0;
  double mean = 0, deviation = 0;
  double open = 0;           // share, by the labelled threshold
  double open_left_out = 0;  // likewise, by one that never saw this task
};

struct StatisticSummary {
  GateFit fit;
  Estimate auc;  // a dilution prompt lies on the safer side of a capacity one
  std::vector<ClassValues> classes;
  // Of two questions about one document, the share whose decision is the same.
  double same_document = 0;
  // At the judged point, inside the capacity class: an unharmed prompt lies on the safer side.
  Estimate harm_auc;
};

// Most nats of the self-checks that are compared; kSelfCheckKl is judged.
inline constexpr double kSelfCheckMosts[] = {0.03, engine::kSelfCheckKl, 0.3};

// How well the KL of a question's first token, behind one policy's review, tells which answers are
// lost.
struct SelfCheckSummary {
  std::string policy;
  double keep = 0;
  Estimate harm_auc;           // over all questions that the full cache answers
  Estimate capacity_harm_auc;  // inside the capacity class
};

struct GatedArm {
  // open, closed, oracle, STATISTIC, STATISTIC:z, STATISTIC:signed, self-check:NATS, random as one
  // of these
  std::string policy, gate;
  double keep = 0;
  std::optional<NeedClass> need{};  // none: all
  Estimate harm;
  double open = 1;         // share of the questions
  double bytes_share = 1;  // achieved, of the full cache
};

struct GateSummary {
  std::vector<StatisticSummary> statistics;
  std::vector<SelfCheckSummary> self_checks;  // of every policy and share
  std::vector<GatedArm> arms;
  std::vector<Check> checks;
};

// Pure.  REQUIRES: results with statistics, of tasks that ask.
GateSummary summarise_gates(const std::vector<LabelledValues>& calibration,
                            const std::vector<InputResult>& results);

struct GateEvalOptions {
  PoliciesOptions quality;                 // arrange_gates() sets what makes it one of gates
  std::uint32_t calibration_prompts = 20;  // of each task
  // A class with so many answered prompts gets no more documents; 0: all seeds.
  std::uint32_t right_most = 0;
};
void arrange_gates(GateEvalOptions& options);

// Questions that the full cache answers: of a document, of a class.
std::size_t answered_of(const InputResult& input);
std::size_t answered_of(NeedClass need, const std::vector<InputResult>& measured);

struct GateReport {
  PoliciesReport quality;
  std::uint32_t calibration_prompts = 0;
  GateSummary gates;
};
Result<GateReport> evaluate_gates(model::Model& model, const CacheOptions& like,
                                  const GateEvalOptions& options);

// {quire_json: 1, model, options, inputs, calibration_prompts, statistics, arms, checks}
Json json_of(const GateReport& report);
std::string table_of(const GateReport& report);
std::string csv_of(const GateReport& report);  // a line per arm and class
// gate.md, with a section for each model; gate-MODEL.csv; plots/gate-MODEL-*.svg.
Status write_report(const GateReport& report, const std::string& directory);

}  // namespace quire::eval
