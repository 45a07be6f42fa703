// `quire eval tasks`: what a review takes from answers.  An arm is a policy, a share of the
// document's tokens that it keeps, and a gate that may refuse; every table has the full cache, the
// latest tokens, and random ones beside them.
#pragma once

#include <string>
#include <vector>

#include "eval/gates.h"
#include "eval/policies_eval.h"

namespace quire::eval {

struct TasksOptions {
  PoliciesOptions quality;         // its keeps are shares of the document's tokens: arrange()
  std::vector<std::string> gates;  // what make_gate reads; empty: open
};

struct TasksReport {
  PoliciesReport quality;  // cells of all arms, gates included
  std::string kv_type;     // how keys and values are stored: f16, bf16, f32
};

// Sets what makes an evaluation one of tasks.
void arrange(TasksOptions& options);

// `options` as arrange() left them; what the log has is not measured again.  Gates need no
// measurement of their own, so a log serves all of them.  kInvalidArgument: no such gate.
Result<TasksReport> evaluate_tasks(model::Model& model, const CacheOptions& like,
                                   const TasksOptions& options);

// {quire_json: 1, model, options, inputs, arms, checks}.  An arm: task, view (null: text that goes
// on), policy, keep, gate, labels (labels_of), mode (strict: the review comes before the prompt's
// last row, so no token of an answer is the full cache's), kv_type, open_rate, n (questions or
// documents), documents, em (right), em_full, retained (of what the full cache has right), harm
// (full right, arm wrong, of n), logprob (nats a token of the answer), nll (of a text that goes
// on), kl, entries, bytes, bytes_share, only_protected, and ci: for each measure {documents: [low,
// high]}, the bootstrap over documents, and of shares {wilson: [low, high]}, as if questions were
// independent.
Json json_of(const TasksReport& report);
std::string table_of(const TasksReport& report);
// A line per arm and measure.
std::string csv_of(const TasksReport& report);
// tasks.md, with a section for each model; tasks-MODEL.csv; plots/tasks-MODEL-*.svg.
Status write_report(const TasksReport& report, const std::string& directory);

}  // namespace quire::eval
